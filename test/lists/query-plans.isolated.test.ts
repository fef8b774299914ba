/** Lists use indexes for every sort, filter and search, so that their cost does not grow with the table. */

import t, { type Test } from 'tap'
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

/** The searched text of a row. */
const toLines = (...fields: string[]) => [...fields, WORDS].join(' || chr(10) || ')

/** Enough rows for the planner to mind, in a second or two. */
async function fill(database: Database): Promise<string> {
  const moment = `timestamptz '2026-01-01' + n * interval '1 minute'`
  await database.run(`insert into users (id, name, email, role, status, search, created_at, updated_at)
    select gen_random_uuid(), 'User ' || n % 500, n || '@example.com', (array['member','manager'])[1 + (n % 20 = 0)::int],
      (array['active','inactive','suspended'])[1 + n % 3], ${toLines(`'user ' || n % 500`, `n || '@example.com'`)},
      ${moment}, ${moment} from generate_series(1, ${ROWS}) n`)
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
      (array['draft','active','archived'])[1 + n % 3], ${toLines(`'s-' || n`, `'product ' || n % 800`)},
      ${moment}, ${moment} from generate_series(1, ${ROWS}) n`)
  await database.run(`insert into orders (id, user_id, items, currency, total_amount, status, search, created_at, updated_at)
    select gen_random_uuid(), u.id, '[]', 'USD', n % 3000,
      (array['pending','paid','shipped','completed','cancelled','refunded'])[1 + n % 6], ${WORDS}, ${moment}, ${moment}
    from (select id, row_number() over (order by created_at) n from users) u`)
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
const [, another] = (await opened.run('select id from users order by id limit 2')).map(({ id }) => String(id))

/** Returns the statements of a list: its page, and the rows that it includes. */
async function recordStatements(path: string, client: Client): Promise<Asked[]> {
  asked.length = 0
  const reply = await client.get(path)
  if (reply.status !== 200) throw new Error(`${path}: ${reply.text}`)
  // The service looks for mails to send in between.
  return asked.filter(({ text }) => !/api_keys|\bmails\b|^select "id", "status" from "users"/.test(text))
}

interface Plan {
  /** The type of every node, with its index or table. */
  nodes: string[]
  /** Rows that were read and not returned. */
  removed: number
  /** Rows of the largest sort, without those that begin in order. */
  sorted: number
  /** Rows that the scans returned. */
  read: number
  /** The request and the mode. */
  label: string
}

const literal = (text: string | null) => (text === null ? 'null' : `'${text.replaceAll("'", "''")}'`)

/** Explains a statement; `generic` as a prepared one runs after some executions, planned without its values. */
const explain = ({ text, params }: Asked, label: string, mode: 'custom' | 'generic'): Promise<Plan> =>
  opened.transaction(async (tx: Connection) => {
    await tx.run(`set local plan_cache_mode = force_${mode}_plan`)
    await tx.run(`prepare looked_at as ${text}`)
    const values = params.length > 0 ? `(${toTextValues(params).map(literal).join()})` : ''
    const [row] = await tx.run(`explain (analyze, timing off, format json) execute looked_at${values}`)
    await tx.run('deallocate looked_at')
    const plan: Plan = { nodes: [], removed: 0, sorted: 0, read: 0, label: '' }
    const walk = (node: Json) => {
      const target = node['Index Name'] ?? node['Relation Name']
      plan.nodes.push(target ? `${node['Node Type']} ${target}` : node['Node Type'])
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
    return { ...plan, label: `${label}, ${mode}: ${plan.nodes}` }
  })

/** Explains a statement in both modes, unless it is planned for its values each time. */
async function explainModes(statement: Asked, label: string): Promise<Plan[]> {
  const custom = await explain(statement, label, 'custom')
  return statement.custom ? [custom] : [custom, await explain(statement, label, 'generic')]
}

/** Explains the page of a list. */
async function explainPage(path: string, client: Client = admin): Promise<Plan[]> {
  const [page] = await recordStatements(path, client)
  if (!page) throw new Error(`${path}: no statement`)
  return explainModes(page, path)
}

/** Explains the first two pages of a list by cursor, and the second one by number if `isNumbered`. */
async function explainPages(path: string, client: Client, isNumbered: boolean): Promise<Plan[]> {
  const { body } = await client.get(path)
  const paths = [path, `${path}&cursor=${body.pagination.cursor ?? ''}`]
  if (isNumbered) paths.push(`${path}&page=2`)
  const plans: Plan[] = []
  for (const page of paths) plans.push(...(await explainPage(page, client)))
  return plans
}

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

const isSeqScan = (node: string) => /^Seq Scan/.test(node)

interface Limits {
  /** An index that is scanned. */
  index?: string
  /** Whether nothing is sorted, or nothing as a whole. */
  unsorted?: 'at all' | 'as a whole'
  /** The most rows that are sorted, removed, and read and removed. */
  sorted?: number
  removed?: number
  read?: number
}

/** Checks that no plan scans a table, and that each keeps the limits. */
function checkPlans(t: Test, plans: readonly Plan[], limits: Limits) {
  const { index, unsorted, sorted = Infinity, removed = Infinity, read = Infinity } = limits
  t.ok(plans.length > 0)
  for (const plan of plans) {
    const { label, nodes } = plan
    t.notOk(nodes.some(isSeqScan), label)
    if (index)
      t.ok(
        nodes.some((node) => node.endsWith(`Scan ${index}`)),
        label,
      )
    if (unsorted)
      t.notOk(
        nodes.some((node) => (unsorted === 'at all' ? /Sort\b/ : /^Sort\b/).test(node)),
        label,
      )
    t.ok(plan.sorted <= sorted, `${label}: sorts ${plan.sorted} rows`)
    t.ok(plan.removed <= removed, `${label}: removes ${plan.removed} rows`)
    t.ok(plan.read + plan.removed <= read, `${label}: reads ${plan.read + plan.removed} rows`)
  }
}

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
      const query = `${path}?sort=${sort}`
      const { body } = await admin.get(query)
      const next = `${query}&cursor=${body.pagination.cursor}`
      const [second] = await recordStatements(next, admin)
      if (!second) throw new Error('no statement')
      const middle = await inTheMiddle(second, table, isNested, sort)
      const plans = [
        ...(await explainPage(query)),
        ...(await explainModes(second, next)),
        ...(await explainModes(middle, `the middle of ${query}`)),
      ]
      checkPlans(t, plans, { unsorted: 'at all', removed: 1 })
    }
    for (const filter of [...filters, 'created_after=2026-01-05', 'created_before=2026-01-05']) {
      const isUnique = table === 'user_profiles' && filter.startsWith('user_id')
      const unsorted = isUnique ? undefined : 'at all'
      checkPlans(t, await explainPage(`${path}?${filter}`), { ...(unsorted && { unsorted }), removed: 0 })
    }
  })

  t.test(`${table}: several fields sort incrementally, whatever their directions`, async (t) => {
    for (const [i, first] of sorts.entries()) {
      const second = sorts[(i + 1) % sorts.length]
      for (const sort of [
        `${first},${second}`,
        `-${first},${second}`,
        `${first},-${second}`,
        `-${first},-${second}`,
      ]) {
        const plans = await explainPages(`${path}?sort=${sort}`, admin, false)
        checkPlans(t, plans, { unsorted: 'as a whole', removed: 200 })
      }
    }
  })

  t.test(`${table}: a search for a rare word uses the trigram index or the rows of the parent`, async (t) => {
    // A plan for any word would be one for common words, and scan the whole table for a rare one.
    checkPlans(t, await explainPage(`${path}?search=quokka`), isNested ? {} : { index: `${table}_search` })
  })
}

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
    for (const more of ['', '&sort=created_at', '&limit=7']) {
      for (const plan of await explainPages(`${path}?${filter}${more}`, admin, true)) {
        const rows = values * (plan.label.includes('&page=2') ? 41 : 21)
        const used = new Set(plan.nodes.filter((node) => /^(?:Index|Bitmap|Seq)/.test(node)))
        t.same([...used], [`Index Scan ${index}`], plan.label)
        checkPlans(t, [plan], { read: rows, sorted: rows, removed: 0 })
      }
    }
  }
})

t.test('several states of one user read the rows of that user once', async (t) => {
  for (const users of [author, `${author},${another}`]) {
    const plans = await explainPage(`/orders?status=paid,pending,shipped&user_id=${users}`)
    checkPlans(t, plans, { index: 'orders_user_id', read: 2 })
  }
})

t.test('a look-up by sku, email, number or the user of a profile reads nothing else', async (t) => {
  const { body } = await admin.get('/orders?limit=2')
  const [number, next] = body.data.map((order: Json) => order.number)
  const lookups: [query: string, another: string, index: string, sort: string][] = [
    ['/products?sku=S-7', 'S-8', 'products_sku_unique', 'name'],
    ['/users?email=7@example.com', '8@example.com', 'users_email_unique', 'updated_at'],
    [`/orders?number=${number}`, next, 'orders_number_unique', 'updated_at'],
    [`/user-profiles?user_id=${author}`, `${another}`, 'user_profiles_user_id_unique', 'updated_at'],
  ]
  for (const [query, other, index, sort] of lookups) {
    for (const path of [query, `${query},${other}`]) {
      const plans = [...(await explainPage(path)), ...(await explainPage(`${path}&sort=${sort}&page=1`))]
      checkPlans(t, plans, { index, read: 2, removed: 0 })
    }
  }
})

t.test('a prefix reads its rows from the index of its field', async (t) => {
  const prefixes: [query: string, index: string, read: number][] = [
    ['/products?sku_prefix=s-77', 'products_sku_prefix', 1 + ROWS / 90],
    ['/products?sku_prefix=S-1234', 'products_sku_prefix', 11],
    ['/products?sku_prefix=s-1234&status=active', 'products_sku_prefix', 11],
    ['/products?sku_prefix=s-1234&status=active,draft', 'products_sku_prefix', 22],
    ['/products?sku_prefix=s-1234&sort=name', 'products_sku_prefix', 11],
    ['/products?name_prefix=Product%20799', 'products_name_prefix', ROWS / 800],
    ['/products?name_prefix=none', 'products_name_prefix', 0],
    ['/users?name_prefix=user%20499', 'users_name_prefix', ROWS / 500],
    ['/users?email_prefix=1999', 'users_email_prefix', 11],
  ]
  for (const [query, index, read] of prefixes) {
    for (const path of [query, `${query}&page=1`]) checkPlans(t, await explainPage(path), { index, read })
  }
  // A prefix of most rows stops when the page is full.
  for (const query of [
    '/products?sku_prefix=s',
    '/products?name_prefix=p&status=active',
    '/users?email_prefix=1',
  ]) {
    checkPlans(t, await explainPage(query), { unsorted: 'as a whole', read: 400 })
  }
})

t.test('a negation reads one page of each other value from the index of the filter', async (t) => {
  for (const [query, index, values] of [
    ['/users?status_not=active', 'users_status', 2],
    ['/products?status_not=draft,archived', 'products_status', 1],
    ['/orders?status_not=pending', 'orders_status', 5],
  ] as const) {
    for (const path of [query, `${query}&sort=created_at`]) {
      checkPlans(t, await explainPage(path), { index, read: values * 21, removed: 0 })
    }
  }
})

t.test(
  'a filter of a relation stops when the page is full, or reads the rows of few related ones',
  async (t) => {
    checkPlans(t, await explainPage('/orders?user.status=active'), { unsorted: 'as a whole', read: 200 })
    await opened.run(
      `update users set status = 'inactive' where status = 'suspended' and email <> '20@example.com'`,
    )
    await opened.run('vacuum analyze users')
    const plans = await explainPage('/orders?user.status=suspended')
    checkPlans(t, plans, { index: 'orders_user_id', read: 2 })
    checkPlans(t, plans, { index: 'users_status' })
  },
)

t.test('a null check walks the order of the list', async (t) => {
  checkPlans(t, await explainPage('/products?description_null=true'), { unsorted: 'at all', read: 21 })
})

t.test(
  'a range reads its rows from the index of the field, or a page in the order of the list',
  async (t) => {
    const ranges: [query: string, index: string, read: number][] = [
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
    for (const [query, index, read] of ranges.filter(([query]) => isServed(query))) {
      checkPlans(t, await explainPage(query), { index, read })
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
    const queries = [...sorts.flatMap((name) => [`sort=${name}`, `sort=-${name}`]), ...filters]
    for (const query of queries.filter((each) => table !== 'orders' || !each.startsWith('user_id'))) {
      const sorted = table === 'orders' ? OWN : 1
      checkPlans(t, await explainPage(`${path}?${query}`, client), { sorted })
    }
  }
})

t.test('a search for a common word scans the sort index and stops when the page is full', async (t) => {
  checkPlans(t, await explainPage('/products?search=common'), { unsorted: 'as a whole' })
})

t.test('a search for two letters does not read the trigram index, which has none of them', async (t) => {
  for (const search of ['qz', 'a-b', 'qz,ko']) {
    const statements = await recordStatements(`/products?page=1&search=${search}`, admin)
    const searches = statements.filter(({ text }) => text.includes(' like '))
    t.ok(searches.length > 0)
    for (const statement of searches) {
      const { nodes, label } = await explain(statement, search, 'custom')
      t.notOk(nodes.includes('Bitmap Index Scan products_search'), label)
    }
  }
})

t.test('includes use an index', async (t) => {
  const included = ['orders', 'profile', ...(isRegistered('posts') ? ['posts'] : [])]
  for (const path of [
    `/users?include=${included.join()}&limit=100`,
    '/orders?include=user,products&limit=100',
    `/users/${author}/posts?include=user`,
  ].filter(isServed)) {
    for (const statement of await recordStatements(path, admin)) {
      checkPlans(t, await explainModes(statement, path), {})
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
    const either = `/${table}?${column}=${value},${absent[`${table}.${column}`]}`
    checkPlans(t, await explainPage(either), { index: `${table}_${column}`, read: 42 })
    for (const [i, by] of callers.entries()) {
      const filter = i === 0 ? `&${column}=${value}` : ''
      for (const more of [
        'limit=20',
        'order=asc',
        `sort=-created_at,${sort}`,
        'created_after=2026-01-02',
        'search=item',
      ]) {
        const path = `/${table}?${more}${filter}`
        t.equal((await by.get(path)).body.data.length, 20, path)
        // The admin and the member have no such word, and are removed.
        const limits = { index: `${table}_${column}`, unsorted: 'as a whole', removed: 3 } as const
        checkPlans(t, await explainPages(path, by, true), limits)
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
