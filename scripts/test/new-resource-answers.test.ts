/** `npm run new` checks all answers before it writes anything, and asks for those that the command line does not give. */
import t from 'tap'
import { askAnswers } from '../new/ask.ts'
import { buildPlan } from '../new/build-plan.ts'
import { readCommandLine } from '../new/options.ts'
import { listRegistered } from '../new/registered.ts'
import { renderFiles } from '../new/render.ts'
import type { Answers } from '../new/resource-plan.ts'

const registered = listRegistered()
const build = (answers: Partial<Answers>) =>
  buildPlan({ name: 'teas', fields: 'name:text', ...answers }, registered)

t.test('each mistake has a message that names it, and all are reported together', async (t) => {
  for (const [answers, ...messages] of [
    [{ name: '../teas' }, '"../teas" is not the name of a collection'],
    [{ name: 'products' }, 'There is a resource "products" already'],
    [{ name: 'metrics', fields: '' }, 'The path /metrics is reserved', '--fields: write at least one field'],
    [{ fields: 'Name:text' }, '"Name" is not a field name; write it in snake_case'],
    [{ fields: 'name:string' }, 'name: there is no type "string"; choose text, multiline'],
    [{ fields: 'name:text(9..1)' }, '--fields: name: "9..1" are no bounds'],
    [{ fields: 'count:integer(0..5)=6' }, 'count: the default must be an integer from 0 to 5'],
    [{ fields: 'tea_id:ref(teas)' }, 'there is no resource "teas" to refer to; choose from users'],
    [{ parent: 'shops' }, '--parent: there is no resource "shops"'],
    [{ owner: 'team.user_id' }, '--owner: team.user_id: "team" is no relation of teas; there are none'],
    [{ states: 'a>b!', 'states-by': 'members' }, '--states-by: write staff or owner'],
    [
      { states: 'a>b; c>d!' },
      '--states: "b" cannot be left',
      '--states: "c" cannot be reached',
      '--states: "d"',
    ],
    [{ 'on-delete': 'cascade' }, '--on-delete: there is no --owner and no --parent'],
    [{ visible: 'name=x' }, '--visible: "name=x" is no condition'],
    [{ restrict: 'name:read=admin,boss' }, '--restrict: name: "boss" is not possible; choose from member,'],
    [{ unique: 'user_id' }, '--unique: "user_id" is not possible; choose from name'],
    [{ filters: 'nothing', search: 'x' }, '--filters: "nothing" is not', '--search: "x" is not possible'],
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

t.test('a table, a file or a folder that exists keeps its name', async (t) => {
  for (const [name, message] of [
    ['order-products', 'drizzle/tables/orders.ts has a table "order_products" already; choose another name'],
    ['limits', 'plugins/limits.ts exists already; remove it, or choose another name'],
  ] as const) {
    const { plan } = build({ name })
    if (!plan) throw new Error(name)
    t.throws(() => renderFiles(plan), { message })
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
  t.same(asked, ['Fields', 'Fields', 'Parent', 'Column', 'States', 'States', 'What', 'Fields'])
  t.equal(shown.length, 2)
})
