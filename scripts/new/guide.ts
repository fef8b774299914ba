/** `npm run new:guide`: renders the code blocks of docs/adopters/adding-a-resource.md from the command that stands in it. */
import '../../src/application.ts'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPlan } from './build-plan.ts'
import { readCommandLine } from './options.ts'
import { listRegistered } from './registered.ts'
import { format, ROOT } from './render.ts'
import type { ResourcePlan } from './resource-plan.ts'
import { writePlugin } from './templates/plugin.ts'
import { writeSchema } from './templates/schema.ts'
import { writeTable } from './templates/table.ts'

const GUIDE = join(ROOT, 'docs/adopters/adding-a-resource.md')

/** The command with its arguments in the shell's syntax, over several lines. */
const COMMAND = /```sh\nnpm run new -- ((?:[^`]|\\\n)+)\n```/
const BLOCK = /(<!-- (\S+) -->\n```ts\n)[\s\S]*?^```$/gm

const templates: Record<string, (plan: ResourcePlan) => string> = {
  'schemas/reviews.ts': writeSchema,
  'drizzle/tables/reviews.ts': writeTable,
  'plugins/reviews.ts': writePlugin,
}

/** Returns the arguments of the command in the guide. */
export function readGuideCommand(guide: string): string[] {
  const command = COMMAND.exec(guide)?.[1]
  if (command === undefined) throw new Error(`${GUIDE} should begin with the command "npm run new"`)
  return [...command.replaceAll('\\\n', ' ').matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, word]) => quoted ?? word ?? '',
  )
}

/** Returns the guide with the code blocks that the command would write. */
export function renderGuide(guide: string): string {
  const { answers } = readCommandLine(readGuideCommand(guide))
  // The service of a fork may have reviews of its own.
  const registered = listRegistered().filter(({ name }) => name !== answers.name)
  const { plan, problems } = buildPlan(answers, registered)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  return guide.replace(BLOCK, (block, head: string, path: string) => {
    const write = templates[path]
    return write ? `${head}${format(path, write(plan)).trim()}\n\`\`\`` : block
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(GUIDE, renderGuide(readFileSync(GUIDE, 'utf8')))
}
