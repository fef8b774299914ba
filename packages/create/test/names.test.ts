/** `resource-api new` writes code for every name, whatever JavaScript, the packages or PostgreSQL call so, or refuses it. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { transformSync } from 'esbuild'
import t, { type Test } from 'tap'
import { readApplication } from '../src/new/application.ts'
import { buildPlan } from '../src/new/plan.ts'
import { renderFiles } from '../src/new/render.ts'
import type { Answers, ResourcePlan } from '../src/new/resource-plan.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { resources, names } = await readApplication(root)

/** With an owner, a status and a type of each helper of the schemas, so that the code imports nearly all of them. */
const FIELDS = `label:text, amount:money, price:decimal(9,2), contact:email, site:url?, opens:time, day:date,
  count:integer(0..9), code:uuid, size:enum(a|b)`
const build = (answers: Partial<Answers>) =>
  buildPlan(
    { name: 'teas', fields: FIELDS, owner: 'user_id', states: 'draft>done!', isRestorable: true, ...answers },
    resources,
  )

/** Without Biome, which would format all the files. */
const folder = t.testdir({ src: { 'own.ts': readFileSync(`${root}src/own.ts`, 'utf8') } })

/** Checks that no file has a name twice, or one that is none. */
function checkFiles(t: Test, plan: ResourcePlan): void {
  for (const { path, text } of renderFiles(folder, plan, names))
    t.doesNotThrow(() => transformSync(text, { loader: 'ts', sourcefile: path }), path)
}

t.test('a name that the code has already gets another one in the code alone', async (t) => {
  for (const [name, singular, variable] of [
    // Words of JavaScript and TypeScript.
    ['arguments', undefined, 'ownArguments'],
    ['class', 'Klass', 'ownClass'],
    ['default', 'Preset', 'ownDefault'],
    ['import', 'Delivered', 'ownImport'],
    ['interface', 'Face', 'ownInterface'],
    ['await', 'Wait', 'ownAwait'],
    ['undefined', 'Unknown', 'ownUndefined'],
    ['package', 'Parcel', 'ownPackage'],
    ['yield', 'Harvest', 'ownYield'],
    // Of the templates.
    ['trigrams', undefined, 'ownTrigrams'],
    ['relations', undefined, 'ownRelations'],
    ['list', 'Listing', 'ownList'],
    ['table', 'Desk', 'ownTable'],
    ['view', 'Outlook', 'ownView'],
    ['index', 'Share', 'ownIndex'],
    ['sql', 'Statement', 'ownSql'],
    ['pg', 'Guide', 'ownPg'],
    ['action', 'Deed', 'ownAction'],
    ['change', 'Coin', 'ownChange'],
    ['text', 'Passage', 'ownText'],
    ['own', 'Possession', 'ownOwn'],
    ['app', 'Program', 'ownApp'],
    // Which only seem to be taken.
    ['lists', undefined, 'lists'],
    ['tables', undefined, 'tables'],
    ['indexes', undefined, 'indexes'],
    ['records', undefined, 'records'],
    ['errors', undefined, 'errors'],
    ['maps', undefined, 'maps'],
    ['objects', undefined, 'objects'],
    ['promises', undefined, 'promises'],
    ['symbols', undefined, 'symbols'],
    ['functions', undefined, 'functions'],
    ['exports', undefined, 'exports'],
    ['modules', undefined, 'modules'],
    ['requires', undefined, 'requires'],
    ['prototypes', undefined, 'prototypes'],
    ['constructors', undefined, 'constructors'],
    ['collections', undefined, 'collections'],
    ['databases', undefined, 'databases'],
    ['checks', undefined, 'checks'],
    ['uuids', undefined, 'uuids'],
    ['settings', undefined, 'settings'],
  ] as const) {
    const { plan, problems } = build({ name, ...(singular && { singular }) })
    t.same(problems, [], name)
    if (!plan) continue
    t.equal(plan.variable, variable)
    t.equal(plan.table, name)
    checkFiles(t, plan)
  }
})

t.test('a singular that the schemas import is refused, and another one is the way out', async (t) => {
  for (const [name, singular] of [
    ['currencies', 'Currency'],
    ['emails', 'Email'],
    ['types', 'Type'],
    ['texts', 'Text'],
    ['integers', 'Integer'],
    ['decimals', 'Decimal'],
    ['ids', 'Id'],
    ['amounts', 'Amount'],
    ['nullables', 'Nullable'],
  ] as const) {
    const messages = build({ name }).problems.map(({ message }) => message)
    t.same(messages, [
      `--singular: the code of a resource imports another "${singular}"; write --singular with another one, as in ${singular}Entry`,
    ])
    const { plan } = build({ name, singular: `${singular}Entry` })
    if (!plan) throw new Error(`${name} has no plan`)
    checkFiles(t, plan)
  }
  for (const singular of ['HttpsUri', 'Nothing', 'OneOf', 'TimeOfDay', 'ChangeOf', 'CALLER'])
    t.match(build({ singular }).problems, [{ message: `imports another "${singular}"` }])
})

t.test('a name that means something else to PostgreSQL or in paths is refused', async (t) => {
  for (const [name, message] of [
    ['pg-tables', "The names of PostgreSQL's own tables begin with pg_, as that of pg-tables would"],
    ['constructor', 'The path /constructor is reserved'],
    ['mcp', 'The path /mcp is reserved'],
    ['v3', '"v3" is not the name of a collection'],
    ['api-keys', 'There is a resource "api-keys" already'],
    ['sessions', 'There is a resource "sessions" already'],
    ['user-profiles', 'There is a resource "user-profiles" already'],
    ['__proto__', '"__proto__" is not the name of a collection'],
    ['to-string', '--singular: write the singular of "to-string" in PascalCase'],
  ] as const)
    t.match(build({ name }).problems[0]?.message, message)
  for (const [name, path] of [
    ['access', 'test/access.test.ts'],
    ['versions', 'plugins/versions.ts'],
  ] as const) {
    const { plan } = build({ name, singular: 'Thing' })
    if (!plan) throw new Error(`${name} has no plan`)
    t.throws(() => renderFiles(root, plan, names), { message: `${path} exists already` })
  }
})

t.test('a field with the name of a parameter of lists is refused, with the other mistakes', async (t) => {
  const parameter = (name: string) =>
    `--fields: "${name}" cannot be the name of a filter: lists have a parameter with that name`
  const index = (name: string) => `--fields: two indexes would have the name "teas_${name}"; choose other`
  for (const [answers, ...messages] of [
    [{ fields: 'price:integer(0..9), price_min:enum(a|b)' }, parameter('price_min')],
    [{ fields: 'price:integer(0..9), price_max:uuid' }, parameter('price_max')],
    [{ fields: 'note:text?, note_null:boolean' }, parameter('note_null')],
    [{ fields: 'is_open:boolean, is_open_not:boolean' }, parameter('is_open_not')],
    [{ fields: 'status_not:enum(a|b)', states: 'draft>done!' }, parameter('status_not')],
    [{ fields: 'name:text, name_prefix:uuid' }, parameter('name_prefix'), index('name_prefix')],
    [
      { fields: 'measures:enum(a|b), group_by:enum(a|b)', aggregates: 'created_at' },
      parameter('measures'),
      parameter('group_by'),
    ],
    [{ fields: 'name:text, name_prefix:integer' }, index('name_prefix')],
    [{ fields: 'price:integer, price_filter:integer', filters: 'price' }, index('price_filter')],
    [{ fields: 'price:integer?, price_asc:integer', sorts: 'price,price_asc' }, index('price_asc')],
    [
      { fields: 'price:integer, price_min:boolean', description: '*/', unique: 'x' },
      '--description: write one line',
      '--unique: "x" is not possible',
      parameter('price_min'),
    ],
  ] as const) {
    const { problems } = buildPlan({ name: 'teas', ...answers }, resources)
    t.equal(problems.length, messages.length, JSON.stringify([answers, problems]))
    for (const [i, message] of messages.entries()) t.match(problems[i]?.message, message)
  }
  for (const fields of [
    'price:integer?, price_min:boolean',
    'price:integer, price_min:text',
    'measures:enum(a|b)',
    'note:text, note_null:boolean',
  ])
    t.same(buildPlan({ name: 'teas', fields }, resources).problems, [], fields)
})
