/** Lists use indexes for every sort, filter and search, so that their cost does not grow with the table. */

import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Connection, Database, Param } from '../../drizzle/client/index.ts'
import { toTextValues } from '../../drizzle/client/values.ts'
import { resources } from '../../src/app.ts'
import { type Client, type Json, testApp } from '../helpers/app.ts'
import { SERVER, testDatabase } from '../helpers/database.ts'
import { getTable, isRegistered } from '../helpers/definitions.ts'
import { stopEventWork } from '../helpers/events.ts'

if (!SERVER) {
  t.plan(0, 'plans are looked at where DATABASE_URL names a server')
  process.exit(0)
}

const ROWS = 20_000
const WORDS = `'item ' || n % 89 || case when n % 3 = 0 then ' common' else '' end || case when n = 770 then ' quokka' else '' end`

/** Enough rows for the planner to mind, in a second or two. */
async function fill(database: Database): Promise<string> {
  const moment = `timestamptz '2026-01-01' + n * interval '1 minute'`
  await database.run(`insert into users (id, name, email, role, status, search, created_at, updated_at)
    select gen_random_uuid(), 'User ' || n % 500, n || '@example.com', (array['member','manager'])[1 + (n % 20 = 0)::int],
      (array['active','inactive','suspended'])[1 + n % 3], ${WORDS}, ${moment}, ${moment} from generate_series(1, ${ROWS}) n`)
  await database.run(`insert into user_profiles (id, user_id, display_name, search, created_at, updated_at)
    select gen_random_uuid(), u.id, case when n % 3 > 0 then 'Name ' || n % 700 end, ${WORDS}, ${moment}, ${moment}
    from (select id, row_number() over (order by id) n from users) u`)
  if (isRegistered('posts')) {
    await database.run(`insert into posts (id, user_id, title, body, status, published_at, search, created_at, updated_at)
      select gen_random_uuid(), u.ids[1 + n % 10], 'Title ' || n % 900, 'body',
        (array['draft','published','archived'])[1 + n % 3], case when n % 3 > 0 then ${moment} end,
        ${WORDS}, ${moment}, ${moment}
      from (select array_agg(id order by id) ids from users) u, generate_series(1, ${ROWS}) n`)
  }
  await database.run(`insert into products (id, sku, name, price_amount, currency, status, search, created_at, updated_at)
    select gen_random_uuid(), 'S-' || n, 'Product ' || n % 800, n % 1000, (array['USD','EUR','JPY'])[1 + n % 3],
      (array['draft','active','archived'])[1 + n % 3], ${WORDS}, ${moment}, ${moment} from generate_series(1, ${ROWS}) n`)
  await database.run(`insert into orders (id, user_id, items, currency, total_amount, status, search, created_at, updated_at)
    select gen_random_uuid(), u.id, '[]', 'USD', n % 3000,
      (array['pending','paid','shipped','completed','cancelled','refunded'])[1 + n % 6], ${WORDS}, ${moment}, ${moment}
    from (select id, row_number() over (order by id) n from users) u`)
  await database.run(`insert into order_products select o.id, p.id
    from (select id, row_number() over (order by id) n from orders) o
    join (select id, row_number() over (order by id) n from products) p on p.n = o.n`)
  // VACUUM also empties the trigrams' pending list, as autovacuum would.
  await database.run('vacuum analyze')
  const [first] = await database.run('select id from users order by id limit 1')
  return String(first?.id)
}

interface Asked {
  text: string
  params: readonly Param[]
  /** Whether it is planned for its values each time. */
  custom: boolean
}

const asked: Asked[] = []
const opened = await testDatabase(t)
const { app, admin, person } = await testApp(
  t,
  {},
  {
    database: createDatabase({
      ...opened.$client,
      run: (text, params = [], options = {}) => {
        asked.push({ text, params, custom: options.customPlan ?? false })
        return opened.$client.run(text, params, options)
      },
    }),
  },
)

// Else its statements were among those of the lists.
await stopEventWork(app)

const author = await fill(opened)

/** What a list asks of the database: its page, and what it includes. */
async function statementsOf(path: string, client: Client = admin): Promise<Asked[]> {
  asked.length = 0
  const reply = await client.get(path)
  if (reply.status !== 200) throw new Error(`${path}: ${reply.text}`)
  return asked.filter(({ text }) => !/api_keys|^select "id", "status" from "users"/.test(text))
}

interface Plan {
  /** Every node's type, with what it stands on. */
  nodes: string[]
  /** Rows read that no one asked for. */
  removed: number
  /** Of the largest sort, save those that begin in order. */
  sorted: number
  /** Rows that the scans returned. */
  read: number
}

const literal = (text: string | null) => (text === null ? 'null' : `'${text.replaceAll("'", "''")}'`)

/** How a statement runs; `generic` as one that was prepared runs in the long run, planned without its values. */
const planOf = ({ text, params }: Asked, mode: 'custom' | 'generic'): Promise<Plan> =>
  opened.transaction(async (tx: Connection) => {
    await tx.run(`set local plan_cache_mode = force_${mode}_plan`)
    await tx.run(`prepare looked_at as ${text}`)
    const values = params.length > 0 ? `(${toTextValues(params).map(literal).join()})` : ''
    const [row] = await tx.run(`explain (analyze, timing off, format json) execute looked_at${values}`)
    await tx.run('deallocate looked_at')
    const plan: Plan = { nodes: [], removed: 0, sorted: 0, read: 0 }
    const walk = (node: Json) => {
      plan.nodes.push(
        [node['Node Type'], node['Index Name'] ?? node['Relation Name']].filter(Boolean).join(' '),
      )
      plan.removed += (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops']
      // The values of a filter are a scan too, of a function.
      if (node['Relation Name']) plan.read += node['Actual Rows'] * node['Actual Loops']
      if (node['Node Type'] === 'Sort')
        plan.sorted = Math.max(plan.sorted, ...node.Plans.map((from: Json) => from['Actual Rows']))
      for (const each of node.Plans ?? []) walk(each)
    }
    const found: Json = row?.['QUERY PLAN']
    const { Plan: root } = (typeof found === 'string' ? JSON.parse(found) : found)[0]
    // The total of a list reads all its rows; the page is the other side of the join.
    walk(text.includes('total_count') ? root.Plans[1] : root)
    return plan
  })

/** The same page, from the row in the middle of its sort. */
async function inTheMiddle(page: Asked, table: string, isNested: boolean, sort: string): Promise<Asked> {
  const name = sort.replace('-', '')
  const [row] = await opened.run(
    `select ${name} as value, id from ${table} ${isNested ? `where user_id = '${author}'` : ''}
     order by ${name} ${sort.startsWith('-') ? 'desc' : 'asc'} nulls last offset ${isNested ? 1000 : 5000} limit 1`,
  )
  const places = [...page.text.matchAll(/\$(\d+)::/g)].map(([, place]) => Number(place) - 1)
  const params = [...page.params]
  // What is unique is a position by itself.
  for (const [i, value] of [row?.value, row?.id].entries()) {
    const place = places[i]
    if (place !== undefined) params[place] = String(value)
  }
  return { ...page, params }
}

const BOTH = ['custom', 'generic'] as const
const modesOf = ({ custom }: Asked) => (custom ? (['custom'] as const) : BOTH)
const isFullSort = (node: string) => /^Sort\b/.test(node)
const isSeqScan = (node: string) => /^Seq Scan/.test(node)
const isAnySort = (node: string) => /Sort\b/.test(node)

/** The filters that are measured of the collections that have rows. */
const FILTERS: Readonly<Record<string, readonly string[]>> = {
  users: ['status=active', 'role=manager'],
  'user-profiles': [`user_id=${author}`],
  posts: ['status=draft'],
  products: ['status=active'],
  orders: ['status=paid', `user_id=${author}`],
}

const lists = resources.flatMap(({ name, parent, sorts }) => {
  const filters = FILTERS[name]
  const path = parent ? `/${parent.to}/${author}/${name}` : `/${name}`
  return filters
    ? [{ path, table: getTable(name), isNested: !!parent, sorts: Object.keys(sorts), filters }]
    : []
})

/** Returns whether the collection that a path ends with is registered. */
const isServed = (path: string) => isRegistered(path.replace(/[?].*/, '').split('/').at(-1) ?? '')

for (const { path, table, isNested, sorts, filters } of lists) {
  t.test(`${table}: every sort and filter scans an index, at any depth`, async (t) => {
    for (const sort of sorts.flatMap((name) => [name, `-${name}`])) {
      const { body } = await admin.get(`${path}?sort=${sort}`)
      const [first] = await statementsOf(`${path}?sort=${sort}`)
      const [next] = await statementsOf(`${path}?sort=${sort}&cursor=${body.pagination.cursor}`)
      if (!first || !next) throw new Error('no statement')
      for (const mode of BOTH) {
        for (const page of [first, next, await inTheMiddle(next, table, isNested, sort)]) {
          const { nodes, removed } = await planOf(page, mode)
          t.notOk(
            nodes.some((node) => isSeqScan(node) || isFullSort(node)),
            `${sort}, ${mode}: ${nodes}`,
          )
          t.notOk(nodes.some(isAnySort), `${sort}, ${mode}: ${nodes}`)
          t.ok(removed <= 1, `${sort}, ${mode}: reads nothing in vain`)
        }
      }
    }
    for (const filter of [...filters, 'created_after=2026-01-05', 'created_before=2026-01-05']) {
      for (const mode of BOTH) {
        const [page] = await statementsOf(`${path}?${filter}`)
        const { nodes, removed } = await planOf(page as Asked, mode)
        const isUnique = table === 'user_profiles' && filter.startsWith('user_id')
        t.notOk(
          nodes.some((node) => isSeqScan(node) || (!isUnique && isAnySort(node))),
          `${filter}, ${mode}: ${nodes}`,
        )
        t.equal(removed, 0, `${filter}, ${mode}: reads nothing in vain`)
      }
    }
  })

  t.test(`${table}: several fields sort incrementally, whatever their directions`, async (t) => {
    const pairs = sorts.flatMap((first, i) => [[first, sorts[(i + 1) % sorts.length] ?? first]])
    for (const sort of pairs.flatMap(([first, second]) => [
      `${first},${second}`,
      `-${first},${second}`,
      `${first},-${second}`,
      `-${first},-${second}`,
    ])) {
      const { body } = await admin.get(`${path}?sort=${sort}`)
      for (const query of [`sort=${sort}`, `sort=${sort}&cursor=${body.pagination.cursor}`]) {
        const [page] = await statementsOf(`${path}?${query}`)
        for (const mode of BOTH) {
          const { nodes, removed } = await planOf(page as Asked, mode)
          t.notOk(
            nodes.some((node) => isSeqScan(node) || isFullSort(node)),
            `${sort}, ${mode}: ${nodes}`,
          )
          t.ok(removed <= 200, `${sort}, ${mode}: reads little in vain, ${removed}`)
        }
      }
    }
  })

  t.test(`${table}: a search for a rare word uses the trigram index or the rows of the parent`, async (t) => {
    const [page] = await statementsOf(`${path}?search=quokka`)
    if (!page) throw new Error('no statement')
    // Planned once for all words it would be planned for the common ones, and walk a whole table for this one.
    for (const mode of modesOf(page)) {
      const { nodes } = await planOf(page, mode)
      if (isNested) t.notOk(nodes.some(isSeqScan), `${mode}: ${nodes}`)
      else t.ok(nodes.includes(`Bitmap Index Scan ${table}_search`), `${mode}: ${nodes}`)
    }
  })
}

const [, another] = (await opened.run('select id from users order by id limit 2')).map(({ id }) => String(id))
const several: [path: string, index: string, query: string][] = [
  ['/users', 'users_status', 'status=active,suspended'],
  ['/users', 'users_role', 'role=manager,admin,member'],
  [`/users/${author}/posts`, 'posts_status', 'status=draft,archived'],
  ['/products', 'products_status', 'status=active,draft'],
  ['/products', 'products_currency', 'currency=EUR,USD,CHF'],
  ['/orders', 'orders_status', 'status=paid,shipped,completed'],
  ['/orders', 'orders_user_id', `user_id=${author},${another}`],
]

t.test('a filter with several values reads one page of each value from its index', async (t) => {
  for (const [path, index, filter] of several.filter(([path]) => isServed(path))) {
    const values = filter.split(',').length
    for (const sort of ['', '&sort=created_at', '&limit=7']) {
      const query = `${path}?${filter}${sort}`
      const { body } = await admin.get(query)
      for (const page of [query, `${query}&cursor=${body.pagination.cursor ?? ''}`, `${query}&page=2`]) {
        const [statement] = await statementsOf(page)
        if (!statement) throw new Error('no statement')
        const rows = page.endsWith('page=2') ? 41 : 21
        for (const mode of BOTH) {
          const { nodes, removed, sorted, read } = await planOf(statement, mode)
          const used = new Set(nodes.filter((node) => /^(?:Index|Bitmap|Seq)/.test(node)))
          t.same([...used], [`Index Scan ${index}`], `${page}, ${mode}: ${nodes}`)
          t.ok(read <= values * rows, `${page}, ${mode}: reads ${read}`)
          t.ok(sorted <= values * rows, `${page}, ${mode}: sorts ${sorted}`)
          t.equal(removed, 0, `${page}, ${mode}: reads nothing in vain`)
        }
      }
    }
  }
})

t.test('several states of one user read the rows of that user once', async (t) => {
  for (const by of [`user_id=${author}`, `user_id=${author},${another}`]) {
    const [statement] = await statementsOf(`/orders?status=paid,pending,shipped&${by}`)
    for (const mode of BOTH) {
      const { nodes, read, removed } = await planOf(statement as Asked, mode)
      t.ok(
        nodes.some((node) => /Scan orders_user_id/.test(node)),
        `${by}, ${mode}: ${nodes}`,
      )
      t.ok(read + removed <= 2, `${by}, ${mode}: reads ${read + removed}`)
    }
  }
})

t.test('a look-up by sku, email, number or the user of a profile reads nothing else', async (t) => {
  const { body } = await admin.get('/orders?limit=2')
  const numbers = body.data.map(({ number }: Json) => number)
  const lookups: [path: string, index: string, filter: string, values: string[]][] = [
    ['/products', 'products_sku_unique', 'sku', ['S-7', 'S-8']],
    ['/users', 'users_email_unique', 'email', ['7@example.com', '8@example.com']],
    ['/orders', 'orders_number_unique', 'number', numbers],
    ['/user-profiles', 'user_profiles_user_id_unique', 'user_id', [author, String(another)]],
  ]
  for (const [path, index, filter, values] of lookups) {
    const name = path === '/products' ? 'name' : 'updated_at'
    for (const query of [values[0], values.join()].flatMap((wanted) => [
      `${path}?${filter}=${wanted}`,
      `${path}?${filter}=${wanted}&sort=${name}&page=1`,
    ])) {
      const [statement] = await statementsOf(query)
      for (const mode of BOTH) {
        const { nodes, read, removed } = await planOf(statement as Asked, mode)
        t.ok(
          nodes.some((node) => node.includes(`Scan ${index}`)),
          `${query}, ${mode}: ${nodes}`,
        )
        t.ok(read >= 1 && read <= values.length && removed === 0, `${query}, ${mode}: reads ${read}`)
      }
    }
  }
})

t.test(
  'a range reads its rows from the index of the field, or a page in the order of the list',
  async (t) => {
    const ranges: [query: string, index: string, most: number][] = [
      ['/products?price_amount_min=10&price_amount_max=12&sort=price_amount', 'products_price_amount', 21],
      ['/products?price_amount_min=990&sort=-price_amount', 'products_price_amount', 21],
      ['/products?price_amount_min=10&price_amount_max=10', 'products_price_amount', 40],
      ['/products?price_amount_min=5', 'products_created_at', 30],
      ['/products?price_amount_max=2&status=active,draft,archived', 'products_price_amount', 200],
      ['/orders?total_amount_min=2999', 'orders_total_amount', 20],
      ['/orders?updated_after=2026-01-14T21:00:00Z&sort=updated_at', 'orders_updated_at', 21],
      ['/orders?updated_before=2026-01-01T00:10:00Z', 'orders_updated_at', 20],
      [`/users/${author}/posts?updated_before=2026-01-01T02:00:00Z&sort=updated_at`, 'posts_updated_at', 21],
    ]
    for (const [query, index, most] of ranges.filter(([query]) => isServed(query))) {
      const [statement] = await statementsOf(query)
      if (!statement) throw new Error('no statement')
      for (const mode of modesOf(statement)) {
        const { nodes, read, removed } = await planOf(statement, mode)
        t.ok(
          nodes.some((node) => node.endsWith(`Scan ${index}`)),
          `${query}, ${mode}: ${nodes}`,
        )
        t.ok(read + removed <= most, `${query}, ${mode}: reads ${read + removed}`)
      }
    }
  },
)

t.test("a list of a member uses an index and sorts only the member's rows", async (t) => {
  const OWN = 40
  const { id, client } = await person('member')
  await opened.run(
    `insert into orders (id, user_id, items, currency, total_amount)
     select gen_random_uuid(), $1, '[]', 'USD', n from generate_series(1, ${OWN}) n`,
    [id],
  )
  await opened.run('analyze orders')
  for (const { path, table, sorts, filters } of lists.filter(({ table }) => table !== 'users')) {
    const asks = [...sorts.flatMap((name) => [`sort=${name}`, `sort=-${name}`]), ...filters]
    for (const query of asks.filter((query) => table !== 'orders' || !query.startsWith('user_id'))) {
      const [page] = await statementsOf(`${path}?${query}`, client)
      for (const mode of BOTH) {
        const { nodes, sorted } = await planOf(page as Asked, mode)
        t.notOk(nodes.some(isSeqScan), `${table} ${query}, ${mode}: ${nodes}`)
        t.ok(sorted <= OWN, `${table} ${query}, ${mode}: sorts ${sorted}`)
        if (table !== 'orders') t.ok(sorted <= 1, `${table} ${query}, ${mode}: ${nodes}`)
      }
    }
  }
})

t.test('a search for a common word scans the sort index and stops when the page is full', async (t) => {
  const [page] = await statementsOf('/products?search=common')
  const { nodes } = await planOf(page as Asked, 'custom')
  t.notOk(
    nodes.some((node) => isSeqScan(node) || isFullSort(node)),
    `${nodes}`,
  )
})

t.test(
  'a search for two letters does not read the trigram index, which has no entries for them',
  async (t) => {
    for (const search of ['qz', 'a-b', 'qz,ko']) {
      asked.length = 0
      t.equal((await admin.get(`/products?page=1&search=${search}`)).status, 200)
      const searches = asked.filter(({ text }) => text.includes(' like '))
      t.ok(searches.length > 0)
      for (const statement of searches) {
        const { nodes } = await planOf(statement, 'custom')
        t.notOk(nodes.includes('Bitmap Index Scan products_search'), `${search}: ${nodes}`)
      }
    }
  },
)

t.test('includes use an index', async (t) => {
  const included = ['orders', 'profile', ...(isRegistered('posts') ? ['posts'] : [])]
  for (const path of [
    `/users?include=${included.join()}&limit=100`,
    '/orders?include=user,products&limit=100',
    `/users/${author}/posts?include=user`,
  ].filter(isServed)) {
    for (const statement of await statementsOf(path)) {
      for (const mode of BOTH) {
        const { nodes } = await planOf(statement, mode)
        t.notOk(nodes.some(isSeqScan), `${path}, ${mode}: ${nodes}`)
      }
    }
  }
})

t.test('a common value that the newest rows do not have is found without a long scan', async (t) => {
  const { id, client } = await person('member')
  const isOld = `created_at < timestamptz '2026-01-01' + interval '${ROWS - 3000} minutes'`
  const absent: Record<string, string> = {
    'users.status': 'suspended',
    'users.role': 'admin',
    'products.status': 'archived',
    'orders.status': 'refunded',
    'orders.user_id': '00000000-0000-7000-8000-000000000000',
  }
  const cases: [table: string, column: string, value: string, other: string, sort: string, by: Client[]][] = [
    ['users', 'status', 'active', 'inactive', 'name', [admin]],
    ['users', 'role', 'member', 'manager', 'name', [admin]],
    // What a rule asks of all rows is such a value, too.
    ['products', 'status', 'active', 'draft', 'name', [admin, client]],
    ['orders', 'status', 'completed', 'pending', 'number', [admin]],
    ['orders', 'user_id', id, author, 'number', [admin, client]],
  ]
  for (const [table, column, value, other, sort, callers] of cases) {
    await opened.run(
      `update ${table} set ${column} = (array['${value}', '${other}'])[case when ${isOld} then 1 else 2 end]${column === 'user_id' ? '::uuid' : ''}
       ${table === 'users' ? `where email ~ '^[0-9]'` : ''}`,
    )
    await opened.run(`vacuum analyze ${table}`)
    const more = [
      'limit=20',
      'order=asc',
      `sort=-created_at,${sort}`,
      'created_after=2026-01-02',
      'search=item',
    ]
    const either = `/${table}?${column}=${value},${absent[`${table}.${column}`]}`
    const [both] = await statementsOf(either)
    for (const mode of BOTH) {
      const { nodes, read, removed } = await planOf(both as Asked, mode)
      t.ok(nodes.includes(`Index Scan ${table}_${column}`), `${either}, ${mode}: ${nodes}`)
      t.ok(read + removed <= 42, `${either}, ${mode}: reads ${read + removed}`)
    }
    for (const [i, by] of callers.entries()) {
      for (const path of more.map((query) => `/${table}?${query}${i === 0 ? `&${column}=${value}` : ''}`)) {
        const { body } = await by.get(path)
        t.equal(body.data.length, 20, path)
        for (const page of [path, `${path}&cursor=${body.pagination.cursor}`, `${path}&page=2`]) {
          const [statement] = await statementsOf(page, by)
          if (!statement) throw new Error('no statement')
          for (const mode of modesOf(statement)) {
            const { nodes, removed } = await planOf(statement, mode)
            t.notOk(nodes.some(isFullSort), `${page}, ${mode}: ${nodes}`)
            t.ok(nodes.includes(`Index Scan ${table}_${column}`), `${page}, ${mode}: ${nodes}`)
            // The admin and the member have no such word.
            t.ok(removed <= 3, `${page}, ${mode}: reads little in vain, ${removed}`)
          }
        }
      }
    }
  }
})

t.test('the columns that every order changes are in no index, so that the updates are HOT', async (t) => {
  const indexes = await opened.run(`select indexdef from pg_indexes where tablename = 'products'`)
  t.ok(indexes.length > 0)
  for (const { indexdef } of indexes) t.notMatch(indexdef, /stock|updated_at|revision/)
  const hot = await opened.transaction(async (tx) => {
    // Room on the page, as there is in a table that lives.
    await tx.run(`delete from order_products`)
    await tx.run(`delete from products where price_amount > 10`)
    await tx.run(
      `insert into products (id, sku, name, price_amount) select gen_random_uuid(), 'H-' || n, 'h', 1 from generate_series(1, 3) n`,
    )
    await tx.run(
      `update products set stock = stock + 1, revision = revision + 1, updated_at = now() where sku like 'H-%'`,
    )
    const [row] = await tx.run(`select pg_stat_get_xact_tuples_hot_updated('products'::regclass) as hot`)
    return Number(row?.hot)
  })
  t.ok(hot >= 2, `${hot} of 3`)
})
