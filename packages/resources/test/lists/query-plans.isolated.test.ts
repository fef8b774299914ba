/** Lists use indexes for every sort, filter and search, so that their cost does not grow with the table. */
import t, { type Test } from 'tap'
import { resources } from '../../../../src/resources.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { type Client, type Json, testApp } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabase } from '../../../testing/helpers/database.ts'
import { getTable, isRegistered } from '../../../testing/helpers/definitions.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import { checkPlans, explain, type Limits, type Plan, recordStatements, type Statement } from './plans.ts'

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

const opened = await testDatabase(t)
const { database, statements } = recordStatements(opened)
const { app, admin, person } = await testApp(t, {}, { database })
// Else its statements were among those of the lists.
await stopEventWork(app)

const author = await fill(opened)
const [, another] = (await opened.run('select id from users order by id limit 2')).map(({ id }) => String(id))

/** Returns the statements of a list: its page, and the rows that it includes. */
async function readStatements(path: string, client: Client = admin): Promise<Statement[]> {
  statements.length = 0
  const reply = await client.get(path)
  if (reply.status !== 200) throw new Error(`${path}: ${reply.text}`)
  return statements.filter(({ text }) => !/api_keys|^select "id", "status" from "users"/.test(text))
}

/** Explains a statement in both modes, unless it is planned for its values each time. */
async function explainModes(statement: Statement, label: string): Promise<Plan[]> {
  const custom = await explain(opened, statement, label, 'custom')
  return statement.custom ? [custom] : [custom, await explain(opened, statement, label, 'generic')]
}

/** Explains the page of a list. */
async function explainPage(path: string, client: Client = admin): Promise<Plan[]> {
  const [page] = await readStatements(path, client)
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
async function inTheMiddle(page: Statement, table: string, isNested: boolean, sort: string) {
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

/** Returns whether the collection that a path ends with is registered. */
const isServed = (path: string) => isRegistered(path.replace(/[?].*/, '').split('/').at(-1) ?? '')

/**
 * Checks the first page of the lists of each line, `/users?sort=name | users_name | 21`: the index that it scans, or `-`,
 * and the most rows that it reads. Lines of collections that are not registered are skipped.
 */
async function checkLists(t: Test, table: string, more: Limits = {}) {
  for (const line of table.trim().split('\n')) {
    const [path = '', index = '', read = ''] = line.split('|').map((part) => part.trim())
    const limits = { ...more, read: Number(read), ...(index !== '-' && { index }) }
    if (isServed(path)) checkPlans(t, await explainPage(path), limits)
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

const lists = toCollections(resources).flatMap(({ name, parent, sorts }) => {
  const filters = FILTERS[name]
  const path = parent ? `/${parent.to}/${author}/${name}` : `/${name}`
  return filters
    ? [{ path, table: getTable(name), isNested: !!parent, sorts: Object.keys(sorts), filters }]
    : []
})

for (const { path, table, isNested, sorts, filters } of lists) {
  t.test(`${table}: every sort and filter scans an index, at any depth`, async (t) => {
    for (const sort of sorts.flatMap((name) => [name, `-${name}`])) {
      const query = `${path}?sort=${sort}`
      const { body } = await admin.get(query)
      const next = `${query}&cursor=${body.pagination.cursor}`
      const [second] = await readStatements(next)
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
      for (const signs of ['', '-', '|-', '-|-']) {
        const [one = '', two = ''] = signs.split('|')
        const sort = `${one}${first},${two}${second}`
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

t.test('a filter with several values reads one page of each value from its index', async (t) => {
  for (const [path, index, filter] of [
    ['/users', 'users_status', 'status=active,suspended'],
    ['/users', 'users_role', 'role=manager,admin,member'],
    ['/products', 'products_status', 'status=active,draft'],
    ['/products', 'products_currency', 'currency=EUR,USD,CHF'],
    ['/orders', 'orders_status', 'status=paid,shipped,completed'],
    ['/orders', 'orders_user_id', `user_id=${author},${another}`],
  ] as const) {
    if (!isServed(path)) continue
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

t.test('a filter reads its rows from an index, and nothing else', async (t) => {
  const { body } = await admin.get('/orders?limit=2')
  const [number, next] = body.data.map((order: Json) => order.number)
  // Several states of one user are read once.
  await checkLists(
    t,
    `/orders?status=paid,pending,shipped&user_id=${author} | orders_user_id | 2
    /orders?status=paid,pending,shipped&user_id=${author},${another} | orders_user_id | 2
    /users/${author}/posts?status=draft,archived | posts_created_at | 42`,
  )
  const unique = `/products?sku=S-7 | products_sku_unique | 2
      /products?sku=S-7,S-8 | products_sku_unique | 2
      /users?email=7@example.com | users_email_unique | 2
      /users?email=7@example.com,8@example.com | users_email_unique | 2
      /orders?number=${number} | orders_number_unique | 2
      /orders?number=${number},${next} | orders_number_unique | 2
      /user-profiles?user_id=${author} | user_profiles_user_id_unique | 2
      /user-profiles?user_id=${author},${another} | user_profiles_user_id_unique | 2`
  await checkLists(t, unique, { removed: 0 })
  const sortOf = (path: string) => (path.includes('/products') ? 'name' : 'updated_at')
  const sorted = unique.replaceAll(/^\s*\S+/gm, (path) => `${path}&sort=${sortOf(path)}&page=1`)
  await checkLists(t, sorted, { removed: 0 })
})

t.test('a prefix reads its rows from the index of its field', async (t) => {
  const prefixes = `/products?sku_prefix=s-77 | products_sku_prefix | ${1 + ROWS / 90}
    /products?sku_prefix=S-1234 | products_sku_prefix | 11
    /products?sku_prefix=s-1234&status=active | products_sku_prefix | 11
    /products?sku_prefix=s-1234&status=active,draft | products_sku_prefix | 22
    /products?sku_prefix=s-1234&sort=name | products_sku_prefix | 11
    /products?name_prefix=Product%20799 | products_name_prefix | ${ROWS / 800}
    /products?name_prefix=none | products_name_prefix | 0
    /users?name_prefix=user%20499 | users_name_prefix | ${ROWS / 500}
    /users?email_prefix=1999 | users_email_prefix | 11`
  for (const page of ['', '&page=1']) await checkLists(t, prefixes.replaceAll(/^\s*\S+/gm, `$&${page}`))
  // A prefix of most rows stops when the page is full.
  await checkLists(
    t,
    `/products?sku_prefix=s | - | 400
    /products?name_prefix=p&status=active | - | 400
    /users?email_prefix=1 | - | 400`,
    { unsorted: 'as a whole' },
  )
})

t.test('a negation reads a page of each other value, a null check walks the order of the list', async (t) => {
  await checkLists(
    t,
    `/users?status_not=active | users_status | 42
    /users?status_not=active&sort=created_at | users_status | 42
    /products?status_not=draft,archived | products_status | 21
    /products?status_not=draft,archived&sort=created_at | products_status | 21
    /orders?status_not=pending | orders_status | 105
    /orders?status_not=pending&sort=created_at | orders_status | 105`,
    { removed: 0 },
  )
  await checkLists(t, '/products?description_null=true | - | 21', { unsorted: 'at all' })
})

t.test(
  'a filter of a relation stops when the page is full, or reads the rows of few related ones',
  async (t) => {
    await checkLists(t, '/orders?user.status=active | - | 200', { unsorted: 'as a whole' })
    const others = `status = 'suspended' and email <> '20@example.com'`
    await opened.run(`update users set status = 'inactive' where ${others}`)
    await opened.run('vacuum analyze users')
    const plans = await explainPage('/orders?user.status=suspended')
    checkPlans(t, plans, { index: 'orders_user_id', read: 2 })
    checkPlans(t, plans, { index: 'users_status' })
  },
)

t.test('a range reads rows from the index of its field, or a page in the order of the list', async (t) => {
  await checkLists(
    t,
    `/products?price_amount_min=10&price_amount_max=12&sort=price_amount | products_price_amount | 21
    /products?price_amount_min=990&sort=-price_amount | products_price_amount | 21
    /products?price_amount_min=10&price_amount_max=10 | products_price_amount | 40
    /products?price_amount_min=5 | products_created_at | 30
    /products?price_amount_max=2&status=active,draft,archived | products_price_amount | 200
    /orders?total_amount_min=2999 | orders_total_amount | 20
    /orders?updated_after=2026-01-14T21:00:00Z&sort=updated_at | orders_updated_at | 21
    /orders?updated_before=2026-01-01T00:10:00Z | orders_updated_at | 20
    /users/${author}/posts?updated_before=2026-01-01T02:00:00Z&sort=updated_at | posts_updated_at | 21`,
  )
})

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
    const found = await readStatements(`/products?page=1&search=${search}`)
    const searches = found.filter(({ text }) => text.includes(' like '))
    t.ok(searches.length > 0)
    for (const statement of searches) {
      const { nodes, label } = await explain(opened, statement, search, 'custom')
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
    for (const statement of await readStatements(path)) {
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
    const queries = `limit=20 order=asc sort=-created_at,${sort} created_after=2026-01-02 search=item`
    for (const [i, by] of callers.entries()) {
      const filter = i === 0 ? `&${column}=${value}` : ''
      for (const more of queries.split(' ')) {
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
