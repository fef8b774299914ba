/** `npm run new` checks all answers before it writes anything, and asks for those that the command line does not give. */
import { getTableName } from 'drizzle-orm'
import t from 'tap'
import { askAnswers } from '../../scripts/new/ask.ts'
import { buildPlan } from '../../scripts/new/build-plan.ts'
import { readCommandLine } from '../../scripts/new/options.ts'
import { listRegistered } from '../../scripts/new/registered.ts'
import { renderFiles } from '../../scripts/new/render.ts'
import type { Answers } from '../../scripts/new/resource-plan.ts'
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
}
const registered = [...listRegistered(), nested]
const getProblems = (answers: Partial<Answers>) =>
  buildPlan({ name: 'teas', fields: 'name:text', ...answers }, registered).problems.map(
    ({ message }) => message,
  )
const getPlan = (answers: Partial<Answers>) => {
  const { plan, problems } = buildPlan({ name: 'teas', fields: 'name:text', ...answers }, registered)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  return plan
}

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
    [{ owner: 'user_id:deletes' }, '--owner: write COLUMN:writes or COLUMN:reads'],
    [{ owner: 'user_id', 'on-delete': 'ignore' }, '--on-delete: write restrict or cascade'],
    [{ 'on-delete': 'cascade' }, '--on-delete: there is no --owner and no --parent'],
    [{ visible: 'draft' }, '--visible: "draft" is no condition; write all, none, or FIELD=VALUES'],
    [{ states: 'a>b!', visible: 'status=c' }, '--visible: status: "c" is not possible; choose from a, b'],
    [{ states: 'a>b!', visible: 'status=a,b' }, '--visible: status has no other values'],
    [{ visible: 'name=x' }, '--visible: "name=x" is no condition'],
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
  t.same(asked, ['Fields', 'Fields', 'Parent', 'Column', 'States', 'States', 'What'])
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
