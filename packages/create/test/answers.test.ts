/** `resource-api new` checks all answers before it writes anything. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { describeNext } from '../src/new/add-resource.ts'
import { readApplication } from '../src/new/application.ts'
import { readCommandLine } from '../src/new/options.ts'
import { buildPlan } from '../src/new/plan.ts'
import { renderFiles } from '../src/new/render.ts'
import type { Answers } from '../src/new/resource-plan.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { resources, names } = await readApplication(root)
const build = (answers: Partial<Answers>) =>
  buildPlan({ name: 'teas', fields: 'name:text', ...answers }, resources)

t.test('each mistake has a message that names it, and all are reported together', async (t) => {
  for (const [answers, ...messages] of [
    [{ name: '../teas' }, '"../teas" is not the name of a collection'],
    [{ name: 'products' }, 'There is a resource "products" already'],
    [{ name: 'events' }, 'There is a resource "events" already; in src/application.ts, names: {'],
    [{ name: 'metrics', fields: '' }, 'The path /metrics is reserved', '--fields: write at least one field'],
    [{ name: 'order-sums' }, '--singular: the documents have a schema OrderSum already'],
    [{ fields: 'Name:text' }, '"Name" is not a field name; write it in snake_case'],
    [{ fields: 'name:string' }, 'name: there is no type "string"; choose text, multiline'],
    [{ fields: 'name:text(9..1)' }, '--fields: name: "9..1" are no bounds'],
    [{ fields: 'count:integer(0..5)=6' }, 'count: the default must be an integer from 0 to 5'],
    [{ fields: 'host_id:ref(users) readonly' }, 'host_id: a new row has no value of it'],
    [{ fields: 'code:text readonly', unique: 'code' }, '--unique: "code" is not possible'],
    [{ fields: 'total:integer=1 computed' }, 'total: a computed field has no column'],
    [{ fields: 'tea_id:ref(teas)' }, 'there is no resource "teas" to refer to; choose from users'],
    [{ parent: 'shops' }, '--parent: there is no resource "shops"'],
    [{ owner: 'a.b.c.d.user_id' }, '--owner: "a.b.c.d.user_id": write COLUMN:writes'],
    [{ states: 'a>b!', 'states-by': 'members' }, '--states-by: write staff'],
    [
      { states: 'a>b; c>d!' },
      '--states: "b" cannot be left',
      '--states: "c" cannot be reached',
      '--states: "d"',
    ],
    [{ 'on-delete': 'cascade' }, '--on-delete: there is no --owner and no --parent'],
    [{ visible: 'name=x' }, '--visible: "name" is no status, enum or boolean'],
    [{ restrict: 'name:read=admin,boss' }, '--restrict: name: "boss" is not possible; choose from member,'],
    [{ unique: 'user_id' }, '--unique: "user_id" is not possible'],
    [{ filters: 'nothing', search: 'x' }, '--filters: "nothing" is not', '--search: "x" is not possible'],
    [{ aggregates: 'name' }, '--aggregates: "name" is not possible, or stands twice; choose from created_at'],
    [{ description: 'x */ process.exit()' }, '--description: write one line'],
  ] as const) {
    const problems = build(answers).problems.map(({ message }) => message)
    t.equal(problems.length, messages.length, problems.join())
    for (const [i, message] of messages.entries()) t.match(problems[i], message)
  }
  const { problems } = readCommandLine(['--fieds', 'x:y', '--owner', '--fields', 'x:y', '--dry-run=1'])
  for (const each of ['There is no option --fieds', '--owner needs a value', '--dry-run has no value'])
    t.match(problems.join(), each)
})

t.test('the next steps say who reads and writes the rows', async (t) => {
  const staff = 'managers and admins read and write all.'
  for (const [answers, rules] of [
    [{}, 'Members read no teas, and write none;'],
    [{ visible: 'all' }, "Members read all users' teas, and write none;"],
    [{ owner: 'user_id' }, 'Members read their own teas, and write their own;'],
    [{ owner: 'user_id:reads' }, 'Members read their own teas, and write none;'],
    [
      { owner: 'shop.members.user_id:reads; shop.owner_id' },
      'Members read teas whose shop.members.user_id is their id, and teas whose shop.owner_id is their id, and write those whose shop.owner_id is their id;',
    ],
  ] as const) {
    const { plan } = build(answers)
    if (!plan) throw new Error('no plan')
    t.match(describeNext(plan), `${rules} ${staff}`)
  }
})

t.test('a table or a file that exists keeps its name', async (t) => {
  for (const [name, message] of [
    ['order-products', 'The application has a table "order_products" already; choose another name'],
    ['limits', 'plugins/limits.ts exists already; remove it, or choose another name'],
  ] as const) {
    const { plan } = build({ name })
    if (!plan) throw new Error(name)
    t.throws(() => renderFiles(root, plan, names), { message })
  }
})

t.test('a resource with the name of a table of the packages has a table with another name', async (t) => {
  const others = resources.filter(({ name }) => name !== 'events')
  const { plan } = buildPlan({ name: 'events', singular: 'LiveEvent', fields: 'user_id:ref(users)' }, others)
  if (!plan) throw new Error('no plan')
  const texts = renderFiles(root, plan, names).map(({ text }) => text)
  const all = texts.join('\n')
  t.match(all, "pgTable(\n  'own_events',")
  t.match(all, "index('own_events_user_id')")
  t.match(all, "table,\n  name: 'events',")
  t.match(all, 'own_events: { table: typeof table')
  t.match(all, "inverse: 'events'")
  t.match(all, "app.get('/events', list(resource))")
  t.notMatch(all, /[^_]events_user_id/)
})

t.test('a currency is set and changed by who sets and changes its amounts', async (t) => {
  const getCurrency = (fields: string) =>
    build({ fields: `name:text, ${fields}` }).plan?.fields.find(({ name }) => name === 'currency')
  t.match(getCurrency('price:money!'), { isImmutable: true })
  t.match(getCurrency('price:money!, fee:money'), { isImmutable: false })
  t.match(getCurrency('total:money=0 readonly'), { isReadOnly: true, isNullable: false, default: 'USD' })
  t.match(getCurrency('total:money readonly, fee:money? readonly'), { isReadOnly: true, default: undefined })
  t.match(getCurrency('total:money? readonly'), { isReadOnly: true, isNullable: true })
  t.match(getCurrency('total:money computed'), { isComputed: true })
})

t.test('a list of resources in another form is not edited', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-test-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'src/own.ts'), 'export const own = { resources: listAll() }\n')
  const { plan } = build({})
  if (!plan) throw new Error('no plan')
  t.throws(() => renderFiles(folder, plan, new Set()), { message: /src\/own\.ts should list the resources/ })
})

t.test('aggregates and restores have their options of the collection and their routes', async (t) => {
  const { answers } = readCommandLine([
    ...['teas', '--fields', 'grams:integer(0..9), kind:enum(green|black), picked_on:date', '--restore'],
    ...['--aggregates', 'grams,kind,picked_on,created_at'],
  ])
  const { plan, problems } = buildPlan(answers, resources)
  t.same(problems, [])
  if (!plan) return
  const plugin = renderFiles(root, plan, names).find(({ path }) => path === 'plugins/teas.ts')?.text ?? ''
  t.match(
    plugin.replace(/\s+/g, ' '),
    "measures: ['grams', 'picked_on', 'created_at'], groups: ['kind', 'picked_on', 'created_at']",
  )
  t.match(plugin, "app.get('/teas/aggregates', aggregate(resource))")
  t.match(plugin, "app.post('/teas/:id/restores', restore(resource))")
  t.match(plugin, 'restore: { admin: true, manager: true }')
  const without = renderFiles(root, { ...plan, aggregates: undefined, isRestorable: false }, names)
  t.notMatch(without.map(({ text }) => text).join('\n'), /aggregat|restore\(/)
})

t.test(
  'a resource without changeable fields has no PUT and PATCH, and what only code sets is read-only',
  async (t) => {
    const { plan, problems } = build({
      fields: 'name:text!, count:integer=0 readonly, grade:integer readonly, size:enum(a|b)? computed',
    })
    t.same(problems, [])
    if (!plan) return
    const files = new Map(renderFiles(root, plan, names).map(({ path, text }) => [path, text]))
    const plugin = files.get('plugins/teas.ts') ?? ''
    t.notMatch(plugin, /app\.(?:put|patch)/)
    t.match(plugin, 'change: Nothing')
    t.match(plugin, "computed: () => ({ size: 'a' })")
    t.match(plugin, 'create(resource, ({ store, body }) => store.insert({ ...body, grade: 5 }))')
    const [read = '', create = ''] = (files.get('schemas/teas.ts') ?? '').split('export const TeaCreate')
    for (const name of ['count', 'grade', 'size']) {
      t.match(read, `${name}: `)
      t.notMatch(create, `${name}: `)
    }
    t.match(files.get('drizzle/tables/teas.ts'), 'count: integer().notNull().default(0)')
    t.notMatch(files.get('drizzle/tables/teas.ts'), 'size')
  },
)
