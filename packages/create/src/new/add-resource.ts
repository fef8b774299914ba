/** Adds a resource to an application, or prints its files. */
import { MATRIX_FILE } from '@resource-api/resources/access-matrix'
import { UsageError } from '../usage-error.ts'
import { readApplication } from './application.ts'
import { toWords, withArticle } from './names.ts'
import { openTable } from './open-table.ts'
import { HELP, readCommandLine } from './options.ts'
import { buildPlan } from './plan.ts'
import { renderFiles } from './render.ts'
import type { Condition, OwnerPath, ResourcePlan } from './resource-plan.ts'
import { STAFF_WORDS } from './template-data.ts'
import { writeFiles } from './write.ts'

const describeConditions = (conditions: readonly Condition[]) =>
  conditions.map(({ field, value }) => `${field} ${value}`).join(' or ')

const describePaths = (words: string, paths: readonly OwnerPath[]) => [
  ...new Set(paths.map(({ path }) => `${words} whose ${path} is their id`)),
]

/** Describes which rows members read, by the rules that the command has written. */
function describeReads({ name, owner, ownConditions, ownerPaths, visible }: ResourcePlan): string {
  const words = toWords(name)
  if (visible === 'all') return `all users' ${words}`
  const limit = ownConditions.length > 0 ? ` with ${describeConditions(ownConditions)}` : ''
  return (
    [
      ...(visible.length > 0 ? [`all users' ${words} with ${describeConditions(visible)}`] : []),
      ...(owner ? [`their own ${words}${limit}`] : []),
      ...describePaths(words, ownerPaths),
    ].join(', and ') || `no ${words}`
  )
}

/** Describes which rows members write. */
function describeWrites({ owner, isOwnerWriting, ownerPaths }: ResourcePlan): string {
  const written = [
    ...(owner && isOwnerWriting ? ['their own'] : []),
    ...describePaths(
      'those',
      ownerPaths.filter(({ isWriting }) => isWriting),
    ),
  ]
  return written.join(', and ') || 'none'
}

const describeDeletion = ({ name, owner, parent }: ResourcePlan) =>
  [...new Set([owner, parent])].flatMap((each) => {
    if (!each) return []
    const row = withArticle(toWords(each.to.singular))
    return each.cascades
      ? `     Deleting ${row} deletes its ${toWords(name)}.`
      : `     Deleting ${row} that has ${toWords(name)} is 409.`
  })

function describeRules(plan: ResourcePlan): string[] {
  const { name, existing, isStatusForStaff } = plan
  if (existing?.view)
    return [
      `  2. Read plugins/${name}.ts: who may read.`,
      `     Members read ${describeReads(plan)}; ${STAFF_WORDS} read all.`,
    ]
  return [
    `  2. Read plugins/${name}.ts: who may read and write${isStatusForStaff ? ', and who changes the status' : ''}.`,
    `     Members read ${describeReads(plan)}, and write ${describeWrites(plan)}; ${STAFF_WORDS} read and write all.`,
    ...describeDeletion(plan),
  ]
}

/** Returns what the command prints after it has written the files. */
export const describeNext = (plan: ResourcePlan) =>
  [
    '',
    'Next:',
    `  1. Read schemas/${plan.name}.ts, and write descriptions and examples that help your clients.`,
    ...describeRules(plan),
    `     ${MATRIX_FILE} promises this: a rule that grants anything else fails the tests.`,
    `  3. Add your rules, and test them in test/${plan.name}.test.ts.`,
    '  4. npm run typecheck && npm test',
    plan.existing?.view
      ? `No migration was written: databases of tests have the view only if one of yours creates ${plan.table}.`
      : 'The next start applies the migration.',
  ].join('\n')

/** @throws UsageError with all mistakes of the command line */
export async function addResource(args: string[], root: string): Promise<void> {
  const { isHelp, isDryRun, answers, problems } = readCommandLine(args)
  if (isHelp) return console.log(HELP)
  const { resources, names } = await readApplication(root)
  if (answers.from === undefined && answers.key !== undefined)
    problems.push('--key: it is that of a view; name the view with --from')
  const table =
    answers.from !== undefined && problems.length === 0
      ? await openTable(answers.from, answers, resources)
      : undefined
  for (const left of table?.left ?? []) console.error(`Left out: ${left}`)
  const built = buildPlan(answers, resources, table)
  // Without a name, the command line says so.
  const wrong = built.problems.filter(
    ({ option }) => answers.name !== '' || (option !== 'name' && option !== 'singular'),
  )
  if (!built.plan || problems.length > 0)
    throw new UsageError([...problems, ...wrong.map(({ message }) => message)].join('\n'))
  const files = renderFiles(root, built.plan, names)
  if (isDryRun) {
    for (const { path, text } of files.filter(({ isNew }) => isNew)) console.log(`--- ${path}\n${text}`)
    return
  }
  const written = await writeFiles(root, files, built.plan)
  console.log(`Wrote:\n${written.map((path) => `  ${path}`).join('\n')}\n${describeNext(built.plan)}`)
}
