/** The code of docs/adopters/adding-a-resource.md is what its command writes, and what stands in tested files. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { readApplication } from '../../packages/create/src/new/application.ts'
import { readCommandLine } from '../../packages/create/src/new/options.ts'
import { buildPlan } from '../../packages/create/src/new/plan.ts'
import { renderFiles } from '../../packages/create/src/new/render.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const guide = readFileSync(`${root}docs/adopters/adding-a-resource.md`, 'utf8')

/** Returns the files that the command of the page writes, by their paths. */
async function runCommand(): Promise<Map<string, string>> {
  const command = /```sh\nnpm run new -- ((?:[^`]|\\\n)+?)\n```/.exec(guide)?.[1] ?? ''
  const args = [...command.replaceAll('\\\n', ' ').matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, word]) => quoted ?? word ?? '',
  )
  const { answers } = readCommandLine(args)
  const { resources, names } = await readApplication(root)
  const { plan, problems } = buildPlan(answers, resources)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  return new Map(renderFiles(root, plan, names).map(({ path, text }) => [path, text.trim()]))
}

t.test('the document shows the code unchanged', async (t) => {
  const written = await runCommand()
  const blocks = [...guide.matchAll(/<!-- (\S+) -->\n```ts\n([\s\S]*?)^```$/gm)]
  const shown = blocks.filter(([, path = '', code = '']) => {
    const file = written.get(path)
    if (file === undefined) t.ok(readFileSync(root + path, 'utf8').includes(code), path)
    else t.equal(code.trim(), file, `${path}: copy what the command prints with --dry-run`)
    return file !== undefined
  })
  t.equal(shown.length, 3, 'a block for the schema, the table and the plugin')
})
