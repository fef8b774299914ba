/** `npm run new -- reviews`: adds a resource. Exit code 2: the answers are wrong and nothing was written. */
import '../../src/application.ts'
import { createInterface } from 'node:readline/promises'
import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { toWords, withArticle } from '../../packages/http/src/lib/to-words.ts'
import { readFieldPlan, renderField } from './add-field.ts'
import { askAnswers } from './ask.ts'
import { buildPlan } from './build-plan.ts'
import { describeReads } from './describe-reads.ts'
import { type CommandLine, HELP, readCommandLine } from './options.ts'
import { getOwnerText } from './owner-paths.ts'
import { listRegistered, type Registered } from './registered.ts'
import { renderFiles } from './render.ts'
import type { Answers, Flag, ResourcePlan } from './resource-plan.ts'
import { writeFiles } from './write.ts'

/** @throws UsageError if the user presses Ctrl-C or Ctrl-D */
async function askOnTerminal(answers: Answers, registered: readonly Registered[]): Promise<Answers> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const closed = new AbortController()
  lines.once('close', () => closed.abort())
  try {
    const ask = (question: string) => lines.question(question, { signal: closed.signal })
    return await askAnswers(answers, registered, ask, (problem) => console.error(problem))
  } catch (error) {
    if (closed.signal.aborted) throw new UsageError('\nInterrupted; nothing was written', { cause: error })
    throw error
  } finally {
    lines.close()
  }
}

/** Returns the answers of the command line, before anything is asked. @throws UsageError */
function checkGiven(answers: Answers, registered: readonly Registered[]): Answers {
  // Names of fields and states are checked once all are known.
  const { owner } = answers
  const certainAnswers = {
    ...answers,
    ...(owner && { owner: (getOwnerText(owner) ?? 'none').replace(/:reads\(.*\)$/, ':reads') }),
  }
  const { problems } = buildPlan({ fields: 'x:text', ...certainAnswers }, registered)
  const certain = problems.filter(({ flag }) => !DEPENDENT.has(flag))
  if (certain.length === 0) return answers
  throw new UsageError(certain.map(({ message }) => message).join('\n'))
}

/** The options that name the answers to questions. */
const DEPENDENT = new Set<Flag>([
  'visible',
  'restrict',
  'unique',
  'filters',
  'sorts',
  'search',
  'states-by',
  'on-delete',
])

/** Returns the plan of the answers, after those that are missing were asked on a terminal. @throws UsageError */
async function readPlan({ answers, problems }: CommandLine): Promise<ResourcePlan> {
  const registered = listRegistered()
  const isAsked = process.stdin.isTTY && problems.length === 0
  const complete = isAsked ? await askOnTerminal(checkGiven(answers, registered), registered) : answers
  const built = buildPlan(complete, registered)
  if (built.plan && problems.length === 0) return built.plan
  // Without a name, the command line says so.
  const wrong = built.problems.filter(
    ({ flag }) => answers.name !== '' || (flag !== 'name' && flag !== 'singular'),
  )
  throw new UsageError([...problems, ...wrong.map(({ message }) => message)].join('\n'))
}

const describeDeletion = ({ name, owner, parent }: ResourcePlan) =>
  [...new Set([owner, parent])].flatMap((each) => {
    if (!each) return []
    const to = toWords(each.to.singular)
    return each.cascades
      ? `     Deleting ${withArticle(to)} deletes its ${toWords(name)}.`
      : `     ${capitalize(withArticle(to))} that has ${toWords(name)} cannot be deleted (409).`
  })

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

const nextSteps = (plan: ResourcePlan) =>
  [
    '',
    'Next:',
    `  1. Read schemas/${plan.name}.ts, and write descriptions and examples that help your clients.`,
    `  2. Read plugins/${plan.name}.ts: who may read and write${plan.isStatusForStaff ? ', and who changes the status' : ''}.`,
    `     Members read ${describeReads(plan)}.`,
    ...describeDeletion(plan),
    `  3. Add your rules, and make test/${plan.name}.examples.ts and the demo rows fit them.`,
    `  4. npm run typecheck && npm run lint && npm test -- test/${plan.name}.test.ts`,
    '  5. Commit all of it, with a line in CHANGELOG.md. The next start applies the migration.',
    'To undo it before the commit: docs/adopters/adding-a-resource.md, "Removing a resource".',
  ].join('\n')

function addField(text: string, isDryRun: boolean): void {
  const plan = readFieldPlan(text, listRegistered())
  const { resource, field } = plan
  const files = renderField(plan)
  if (isDryRun) {
    for (const each of files) console.log(`--- ${each.path}\n${each.text}`)
    return
  }
  const written = writeFiles(files, `${resource.name}-${field.name}`)
  console.log(`Wrote:\n${written.map((path) => `  ${path}`).join('\n')}

Next: npm run typecheck && npm run lint && npm test -- test/${resource.name}.test.ts, and a line in CHANGELOG.md.`)
}

async function run(args: string[]): Promise<void> {
  const line = readCommandLine(args)
  if (line.isHelp) return console.log(HELP)
  if (line.field !== undefined && line.problems.length === 0) return addField(line.field, line.isDryRun)
  const plan = await readPlan(line)
  const files = renderFiles(plan)
  if (line.isDryRun) {
    for (const { path, text } of files.filter(({ isNew }) => isNew)) console.log(`--- ${path}\n${text}`)
    return
  }
  const written = writeFiles(files, plan.name)
  console.log(`Wrote:\n${written.map((path) => `  ${path}`).join('\n')}\n${nextSteps(plan)}`)
}

try {
  await run(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
