/** `npm run new -- reviews`: adds a resource. Exit code 2: the answers are wrong and nothing was written. */
import { createInterface } from 'node:readline/promises'
import { UsageError } from '../../src/cli/usage-error.ts'
import { askAnswers } from './ask.ts'
import { buildPlan } from './build-plan.ts'
import { HELP, readCommandLine } from './options.ts'
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

/** The options whose problems do not depend on the answers to the questions. */
const INDEPENDENT = new Set<Flag>([
  'name',
  'singular',
  'fields',
  'parent',
  'owner',
  'states',
  'states-by',
  'description',
])

/** Returns the answers of the command line, before anything is asked. @throws UsageError */
function checkGiven(answers: Answers, registered: readonly Registered[]): Answers {
  const { problems } = buildPlan({ fields: 'x:text', ...answers }, registered)
  const certain = problems.filter(({ flag }) => INDEPENDENT.has(flag))
  if (certain.length === 0) return answers
  throw new UsageError(certain.map(({ message }) => message).join('\n'))
}

/** @throws UsageError with all problems */
function getPlan(answers: Answers, registered: readonly Registered[]): ResourcePlan {
  const { plan, problems } = buildPlan(answers, registered)
  if (plan) return plan
  throw new UsageError(problems.map(({ message }) => message).join('\n'))
}

const nextSteps = ({ name, isStatusForStaff }: ResourcePlan) => `
Next:
  1. Read schemas/${name}.ts, and write descriptions and examples that help your clients.
  2. Read plugins/resources/${name}.ts: who may read and write${isStatusForStaff ? ', and who changes the status' : ''}.
  3. npm run typecheck && npm run lint && npm test -- test/resources/${name}.test.ts
  4. Commit all of it, with a line in CHANGELOG.md. The next start applies the migration.
To undo it before the commit: docs/adding-a-resource.md, "Removing a resource".`

async function addResource(args: string[]): Promise<void> {
  const { answers, isDryRun } = readCommandLine(args)
  if (!answers) return console.log(HELP)
  const registered = listRegistered()
  const complete = process.stdin.isTTY
    ? await askOnTerminal(checkGiven(answers, registered), registered)
    : answers
  const plan = getPlan(complete, registered)
  const files = renderFiles(plan)
  if (isDryRun) {
    for (const { path, text } of files.filter(({ isNew }) => isNew)) console.log(`--- ${path}\n${text}`)
    return
  }
  const written = writeFiles(files, plan.name)
  console.log(`Wrote:\n${written.map((path) => `  ${path}`).join('\n')}\n${nextSteps(plan)}`)
}

try {
  await addResource(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
