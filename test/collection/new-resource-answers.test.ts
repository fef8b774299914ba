/** `npm run new` checks all answers before it writes anything, and asks for those that the command line does not give. */
import { getTableName } from 'drizzle-orm'
import t from 'tap'
import { readFieldPlan } from '../../scripts/new/add-field.ts'
import { askAnswers } from '../../scripts/new/ask.ts'
import { buildPlan } from '../../scripts/new/build-plan.ts'
import { describeReads } from '../../scripts/new/describe-reads.ts'
import { readCommandLine } from '../../scripts/new/options.ts'
import { listRegistered } from '../../scripts/new/registered.ts'
import { renderFiles } from '../../scripts/new/render.ts'
import type { Answers } from '../../scripts/new/resource-plan.ts'
import { nameOperation } from '../../scripts/new/templates/definition.ts'
import { listDefinitions } from '../../src/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { insertRow } from '../helpers/rows.ts'

/** Some resource that is below another one, whether or not the app has such a resource. */
const nested = {
  name: 'notes',
  singular: 'Note',
  plural: 'Notes',
  table: { name: 'notes', file: 'tables/notes.ts' },
  isNested: true,
  fields: [],
  filters: [],
  refersTo: ['users'],
}
const shared = { isNested: false, filters: [], refersTo: [] }
/** Resources whose relations paths follow. */
const organizations = {
  ...shared,
  ...{ name: 'organizations', singular: 'Organization', plural: 'Organizations' },
  table: { name: 'organizations', file: 'tables/organizations.ts' },
  fields: ['id', 'name', 'owner_id'],
  relations: { memberships: 'memberships' },
}
const memberships = {
  ...shared,
  ...{ name: 'memberships', singular: 'Membership', plural: 'Memberships' },
  table: { name: 'memberships', file: 'tables/memberships.ts' },
  fields: ['id', 'organization_id', 'user_id', 'role'],
  values: { role: ['owner', 'member'] },
}
const registered = [...listRegistered(), nested, organizations, memberships]
const getProblems = (answers: Partial<Answers>) =>
  buildPlan({ name: 'teas', fields: 'name:text', ...answers }, registered).problems.map(
    ({ message }) => message,
  )
const getPlan = (answers: Partial<Answers>) => {
  const { plan, problems } = buildPlan({ name: 'teas', fields: 'name:text', ...answers }, registered)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  return plan
}

const ofOrganization = { fields: 'name:text, organization_id:ref(organizations)' }

t.test('each mistake has a message that names it', async (t) => {
  const mistakes: [Partial<Answers>, string][] = [
    [{ name: 'Teas' }, '"Teas" is not the name of a collection'],
    [{ name: 'v2' }, '"v2" is not the name of a collection'],
    [{ name: '../teas' }, '"../teas" is not the name of a collection'],
    [{ name: 'products' }, 'There is a resource "products" already'],
    [{ name: 'sessions' }, 'There is a resource "sessions" already'],
    [{ name: 'metrics' }, 'The path /metrics is reserved'],
    [{ name: 'password-resets' }, 'The path /password-resets is reserved'],
    [{ name: 'sheep' }, '--singular: write the singular of "sheep"'],
    [{ name: 'goods', singular: 'Product' }, '--singular: another resource is called "Product"'],
    [{ name: `${'long-'.repeat(15)}teas` }, 'longer than the 63 characters of PostgreSQL'],
    [{ fields: '' }, '--fields: write at least one field that can be changed'],
    [{ fields: 'name' }, '"name" is not a field'],
    [{ fields: 'Name:text' }, '"Name" is not a field name; write it in snake_case'],
    [{ fields: 'revision:integer' }, '"revision" is reserved'],
    [{ fields: 'cursor:text' }, '"cursor" is reserved'],
    [{ fields: 'name:string' }, 'name: there is no type "string"; choose text, multiline'],
    [{ fields: 'name:text(9..1)' }, '--fields: name: "9..1" are no bounds'],
    [{ fields: 'name:text(0..9999999)' }, 'name: "0..9999999" are no bounds'],
    [{ fields: 'size:enum(small)' }, 'size: write two or more different values'],
    [{ fields: 'count:integer(0..5)=6' }, 'count: the default must be an integer from 0 to 5'],
    [{ fields: 'size:enum(small|large)=big' }, 'size: the default must be one of small, large'],
    [{ fields: 'amount:decimal(2,3)' }, 'amount: write decimal(DIGITS,DECIMALS) with at most 38 digits'],
    [
      { fields: 'amount:decimal(9,2)=1.5' },
      'amount: the default must be a number with 2 decimals, such as 1.00',
    ],
    [{ fields: 'opens:time=9' }, 'opens: the default must be a time of day'],
    [{ fields: 'tags:texts(1..3)=[]' }, 'tags: the default must be [], of a list that may be empty'],
    [{ fields: 'code:uuid(4)' }, 'code: the type uuid has no arguments'],
    [{ fields: 'opens:time?', sorts: 'opens' }, '--sorts: "opens" is not possible'],
    [{ fields: 'name:text?=x' }, 'name: the default of a nullable field is null'],
    [{ fields: 'name:text, name:text' }, '"name" stands twice'],
    [{ fields: 'name:text!' }, 'write at least one field that can be changed'],
    [{ fields: 'product:ref(products)' }, 'product: the name of a reference ends with _id'],
    [{ fields: 'tea_id:ref(teas)' }, 'there is no resource "teas" to refer to; choose from users'],
    [{ fields: 'product_id:ref(products), product:text' }, '"product" is the name of a relation already'],
    [{ fields: 'status:text', states: 'a>b!' }, '"status" stands twice'],
    [{ parent: 'shops' }, '--parent: there is no resource "shops"'],
    [{ parent: 'notes' }, '--parent: "notes" has a parent itself'],
    [{ parent: 'users', owner: 'author_id' }, '--owner: rows under /users belong to the user in the path'],
    [{ owner: 'user' }, '--owner: the name of the column ends with _id'],
    [{ states: 'draft' }, '--states: name two or more states'],
    [{ states: 'draft>Published' }, '--states: "Published" is not a state'],
    [{ states: 'a>b' }, '--states: "b" cannot be left; if that is meant, mark it as final: b!'],
    [{ states: 'a>b!; c>b' }, '--states: "c" cannot be reached from "a"'],
    [{ states: 'a>b!>a' }, '--states: "b!" is final, but a follows it'],
    [{ states: 'a>a>b!' }, '--states: "a" follows itself'],
    [{ states: 'a>b!;>c!' }, '--states: a state is missing'],
    [{ states: 'a>b!', 'states-by': 'members' }, '--states-by: write staff or owner'],
    [
      { owner: 'user_id:reads', states: 'a>b!', 'states-by': 'owner' },
      '--states-by: the owner only reads; write staff',
    ],
    [{ owner: 'user_id:writes(status=a)', states: 'a>b!' }, '--owner: conditions limit what owners read'],
    [{ owner: 'user_id:reads(status=c)', states: 'a>b!' }, '--owner: status: "c" is not possible'],
    [{ owner: 'user_id:reads(status=a,b)', states: 'a>b!' }, 'so that owners read all their rows'],
    [{ owner: 'user_id:reads()', states: 'a>b!' }, '--owner: there is no condition'],
    [
      { owner: 'user_id:reads(name=x)' },
      '--owner: "name=x" is no condition; write COLUMN:reads(FIELD=VALUES)',
    ],
    [{ owner: 'user_id; author_id' }, '--owner: write one column at most, not user_id and author_id'],
    [{ owner: 'team.user_id' }, '--owner: team.user_id: "team" is no relation of teas; there are none'],
    [
      { ...ofOrganization, owner: 'organization.members.user_id' },
      '"members" is no relation of organizations; there are memberships',
    ],
    [{ ...ofOrganization, owner: 'organization.name' }, '"name" is no id of a user in organizations; choose'],
    [
      { ...ofOrganization, owner: 'organization.owner_id:deletes' },
      'is no path; write RELATIONS.COLUMN:reads',
    ],
    [
      { ...ofOrganization, owner: 'organization.memberships.user_id:writes(role=boss)' },
      '"role=boss" is no condition on memberships; choose from role=owner,member',
    ],
    [
      { ...ofOrganization, owner: 'organization.memberships.user_id:reads()' },
      'organization.memberships.user_id: there is no condition',
    ],
    [
      { ...ofOrganization, owner: 'organization.owner_id', 'on-delete': 'cascade' },
      '--on-delete: there is no --owner and no --parent',
    ],
    [{ owner: 'user_id:deletes' }, '--owner: write COLUMN:writes, COLUMN:reads or COLUMN:reads(CONDITIONS)'],
    [{ owner: 'user_id', 'on-delete': 'ignore' }, '--on-delete: write restrict or cascade'],
    [{ 'on-delete': 'cascade' }, '--on-delete: there is no --owner and no --parent'],
    [{ visible: 'draft' }, '--visible: "draft" is no condition; write all, none, or FIELD=VALUES'],
    [{ states: 'a>b!', visible: 'status=c' }, '--visible: status: "c" is not possible; choose from a, b'],
    [{ states: 'a>b!', visible: 'status=a,b' }, '--visible: status has no other values'],
    [{ visible: 'name=x' }, '--visible: "name=x" is no condition'],
    [{ restrict: 'name' }, '--restrict: "name" is no restriction; write FIELD:read=ROLES:write=ROLES'],
    [{ restrict: 'name:reads=admin' }, '--restrict: "name:reads=admin" is no restriction'],
    [{ restrict: 'name:read=admin:read=admin' }, 'is no restriction'],
    [{ restrict: 'name:read=admin,boss' }, '--restrict: name: "boss" is not possible; choose from member,'],
    [{ restrict: 'size:read=admin' }, '--restrict: "size" is not possible; choose from name'],
    [{ states: 'a>b!', restrict: 'status:write=admin' }, '--restrict: "status" is not possible'],
    [{ fields: 'name:text?', restrict: 'name:write=admin; name:write=admin' }, 'name stands twice'],
    [{ fields: 'name:text?', restrict: 'name:read=manager' }, 'name: admins read every field'],
    [
      { fields: 'name:text?', restrict: 'name:read=admin:write=admin,manager' },
      'name: manager would write but not read it',
    ],
    [{ owner: 'user_id', restrict: 'name:write=admin,manager' }, 'member may create rows but not write it'],
    [
      { fields: 'name:text?, profile_id:ref(user-profiles)?', restrict: 'profile_id:read=admin' },
      'profile_id: a reference cannot be hidden',
    ],
    [
      { fields: 'name:text, size:integer', unique: 'name,size', restrict: 'size:read=admin,manager' },
      'size: it cannot be hidden, since --unique compares it with other fields',
    ],
    [
      { fields: 'name:text, is_open:boolean=false', visible: 'is_open=true', restrict: 'is_open:read=admin' },
      'is_open: it decides which rows members read',
    ],
    [
      { fields: 'name:text?', search: 'name', restrict: 'name:read=admin' },
      '--search: "name" is not possible; choose from none',
    ],
    [{ unique: 'user_id' }, '--unique: "user_id" is not possible; choose from name'],
    [{ fields: 'is_open:boolean', unique: 'is_open' }, '--unique: is_open have too few values'],
    [{ filters: 'nothing' }, '--filters: "nothing" is not possible'],
    [{ fields: 'note:multiline', sorts: 'note' }, '--sorts: "note" is not possible; choose from none'],
    [{ search: 'nothing' }, '--search: "nothing" is not possible; choose from name'],
    [{ description: 'x */ process.exit()' }, '--description: write one line'],
  ]
  for (const [answers, message] of mistakes) {
    const problems = getProblems(answers)
    t.equal(problems.length, 1, `${JSON.stringify(answers)}: ${problems.join()}`)
    t.match(problems[0], message)
  }
})

t.test('all mistakes of all fields and options are reported together, each with its place', async (t) => {
  const problems = getProblems({
    name: 'metrics',
    fields: 'x:y, size:enum(small)?=big, Sum:integer(9..1), shop_id:ref(shops), ok:boolean',
    parent: 'z',
    owner: 'user',
    states: 'a>b; c>d!',
    visible: 'size=small; color=red',
    restrict: 'ok:read=boss; color:read=admin; size:read',
    unique: 'size,sum',
    filters: 'ok,size,none,nothing',
    'on-delete': 'delete',
  })
  const places = problems.map((problem) => problem.replace(/^(--\S+ (?:"?\w+"?:?)|\S+ \S+).*/s, '$1'))
  t.same(places, [
    'The path',
    '--on-delete: write',
    '--states: "b"',
    '--states: "c"',
    '--states: "d"',
    '--parent: there',
    '--owner: the',
    '--fields: x:',
    '--fields: size:',
    '--fields: Sum:',
    '--fields: Sum:',
    '--fields: shop_id:',
    '--visible: "color',
    '--restrict: ok:',
    '--restrict: "size:',
    '--restrict: "color"',
    '--unique: "sum"',
    '--filters: "none"',
  ])
})

t.test('the mistakes of the command line are reported with those of the answers', async (t) => {
  const line = readCommandLine(['teas', '--fieds', 'x:y', '--owner', '--fields', 'x:y', '--dry-run=1'])
  t.equal(line.answers.name, 'teas')
  t.match(line.problems.join('\n'), 'There is no option --fieds')
  t.match(line.problems.join('\n'), '--owner needs a value')
  t.match(line.problems.join('\n'), '--dry-run has no value')
})

t.test('owners read only their rows that meet a condition', async (t) => {
  const states = 'draft>issued,canceled!; issued>paid!'
  const owner = 'user_id:reads(status=issued,paid)'
  const getText = (answers: Partial<Answers>, path: string) =>
    renderFiles(getPlan({ states, owner, ...answers })).find((file) => file.path === path)?.text ?? ''
  const definition = 'plugins/resources/teas.ts'
  t.match(
    getText({}, definition),
    /\{ user_id: CALLER, status: 'issued' },\s+\{ user_id: CALLER, status: 'paid' },?\s*\]/,
  )
  t.match(getText({}, definition), 'const writable = defineRules(teas, { admin: true, manager: true })')
  const test = getText({}, 'test/resources/teas.test.ts')
  t.match(test, 'members read their own issued and paid teas')
  t.match(
    test,
    /owner.get\(`\$\{path}\/\$\{id}`\)\).status, 403[\s\S]*'issued' }[\s\S]*owner.get\(`\$\{path}\/\$\{id}`\)\).status, 200\)\s+t.equal\(\(await other.get\([^)]*\)\).status, 403\)/,
  )
  t.equal(describeReads(getPlan({ states, owner })), 'their own teas with status issued or paid')
  t.equal(
    describeReads(getPlan({ states, owner: 'user_id:reads', visible: 'status=issued,paid' })),
    "all users' teas with status issued or paid, and their own teas",
  )
  t.equal(describeReads(getPlan({ visible: 'all' })), "all users' teas")
  t.equal(describeReads(getPlan({})), 'no teas')
})

t.test('paths of --owner are rules over relations, with tests', async (t) => {
  const path = 'organization.memberships.user_id'
  const plan = getPlan({
    ...ofOrganization,
    owner: `user_id:reads; ${path}:reads; ${path}:writes(role=owner)`,
  })
  const getText = (file: string) => renderFiles(plan).find((each) => each.path === file)?.text ?? ''
  const definition = getText('plugins/resources/teas.ts').replaceAll(/\s+/g, ' ')
  t.match(definition, `member: [{ user_id: CALLER }, { '${path}': CALLER }], }) const writable`)
  t.match(definition, `member: [{ '${path}': CALLER, 'organization.memberships.role': 'owner' }], }) export`)
  t.match(definition, "uncheckedReferences: ['user_id']")
  const test = getText('test/resources/teas.test.ts')
  t.match(test, `members read teas by ${path}'`)
  t.match(test, `members change teas by ${path} with role owner'`)
  t.match(
    test,
    "rows.insertRow('memberships', id, {\n      organization_id: data.organization_id,\n      user_id: id,\n      role: 'owner',",
  )
  t.equal(describeReads(plan), `their own teas, and teas whose ${path} is their id`)
})

t.test('fields of some roles have rules, tests and no search', async (t) => {
  const plan = getPlan({
    fields: 'name:text, cost:money=4, note:text?',
    restrict: 'cost:read=admin,manager:write=admin; note:read=admin; currency:write=manager,admin',
  })
  t.same(plan.search, ['name'])
  const getText = (path: string) => renderFiles(plan).find((file) => file.path === path)?.text ?? ''
  t.match(
    getText('plugins/resources/teas.ts').replaceAll(/\s+/g, ' '),
    "fields: { cost: { read: ['manager', 'admin'], write: ['admin'] }, note: { read: ['admin'] }, currency: { write: ['manager', 'admin'] }, }",
  )
  const test = getText('test/resources/teas.test.ts')
  t.match(test, 'cost is read-only for manager')
  t.match(test, 'note does not exist for manager')
  t.notMatch(test, 'currency is read-only')
})

t.test('an operation is named by a noun in the plural, or by a verb', async (t) => {
  t.match(nameOperation('refunds', 'Order'), {
    operationId: 'createOrderRefund',
    summary: 'Create a refund of an order',
  })
  t.match(nameOperation('confirm', 'Appointment'), {
    operationId: 'confirmAppointment',
    summary: 'Confirm an appointment',
  })
  t.match(nameOperation('mark-paid', 'Invoice'), {
    operationId: 'markInvoicePaid',
    summary: 'Mark an invoice paid',
  })
})

t.test('a table or a file that exists is not overwritten', async (t) => {
  t.throws(() => renderFiles(getPlan({ name: 'order-products' })), {
    message: 'drizzle/tables/orders.ts has a table "order_products" already; choose another name',
  })
  t.throws(() => renderFiles(getPlan({ name: 'types' })), { message: 'schemas/types.ts exists already' })
})

t.test('an unknown option or a missing name is a mistake', async (t) => {
  for (const args of [
    ['teas', '--fieds', 'x'],
    [],
    ['a', 'b'],
    ['teas', '--fields'],
    ['a', '--field', 'b.c:text'],
  ]) {
    t.not(readCommandLine(args).problems.length, 0, args.join(' '))
  }
})

t.test('a field may refer to another resource, but not to one whose rows refer back', async (t) => {
  const notes = [...registered, { ...nested, name: 'folders', refersTo: ['notes'] }]
  const { reference, field } = readFieldPlan('notes.user_id:ref(users)!', notes)
  t.match(reference, { column: 'user_id', to: { name: 'users' }, file: 'user-tables.ts', cascades: false })
  t.match(field, { isNullable: true, isImmutable: true })
  for (const [text, message] of [
    ['notes.folder_id:ref(folders)', /folder_id: rows of folders refer to notes/],
    ['notes.note_id:ref(notes)', /note_id: rows of notes refer to notes/],
    ['notes.tea_id:ref(teas)', /tea_id: there is no resource "teas" to refer to/],
    ['notes.tea:ref(users)', /tea: the name of a reference ends with _id/],
  ] as const)
    t.throws(() => readFieldPlan(text, notes), { message }, text)
})

t.test('on a terminal, a wrong answer is asked again, and what is given is not asked', async (t) => {
  const lines = ['name:texx', 'name:text', '', '', 'open', 'open>closed!', 'all']
  const asked: string[] = []
  const shown: string[] = []
  const ask = async (question: string) => {
    asked.push(question.split(/[ ,]/, 1)[0] ?? '')
    return lines.shift() ?? ''
  }
  const given = { name: 'teas', unique: 'name', description: 'Hot' }
  const answers = await askAnswers(given, registered, ask, (problem) => shown.push(problem))
  t.same(answers, { ...given, fields: 'name:text', states: 'open>closed!', visible: 'all' })
  t.same(asked, ['Fields', 'Fields', 'Parent', 'Column', 'States', 'States', 'What', 'Fields'])
  t.equal(shown.length, 2)
})

t.test('a row of every resource can be inserted with the rows that it refers to', async (t) => {
  const database = await testDatabase(t)
  for (const { name, table } of listDefinitions()) {
    const id = await insertRow(database, table)
    const sqlName = getTableName(table)
    const rows = await database.run(`select 1 from ${sqlName} where id = $1`, [id])
    t.equal(rows.length, 1, name)
  }
})
