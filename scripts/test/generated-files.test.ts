/** The generated files and the generated parts of pages are current. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { getName, listCommands, loadCommands, program } from '../../packages/cli/src/program.ts'
import { testApp } from '../../packages/testing/helpers/app.ts'
import { addOwn } from '../../src/commands.ts'
import { updateCommandHelp } from '../command-help.ts'
import { updateEnvExample } from '../env-example.ts'
import { compareSection, sections } from '../generated-sections.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('each generated file is current', async (t) => {
  await loadCommands()
  await addOwn()
  // The address of a server with the default settings.
  const { anybody } = await testApp(t, { PUBLIC_URL: 'http://127.0.0.1:3000' })
  const check = (file: string, text: string, current: string) => {
    const lines = current.split('\n')
    const line = text.split('\n').findIndex((each, i) => each !== lines[i])
    t.ok(text === current, `${file}:${line + 1} should be: ${lines[line]}. Run: npm run docs`)
  }
  for (const section of sections) {
    const { page, current } = await compareSection(section)
    check(`${section.file}, section ${section.name}`, page, current)
  }
  const [example, help] = [read('.env.example'), read('docs/operators/command-line.md')]
  check('.env.example', example, updateEnvExample(example))
  check('docs/operators/command-line.md', help, await updateCommandHelp(help))
  for (const name of ['v1.json', 'v2.json']) {
    const { body } = await anybody.get(`/openapi/${name}`)
    const file = `docs/openapi/${name}`
    check(file, read(file), `${JSON.stringify(body, null, 2)}\n`)
  }
})

t.test('a setting that .env.example lacks is added, one that does not exist is removed', async (t) => {
  const updated = updateEnvExample('# A group\n# PORT=1\n# NO_SUCH_SETTING=2\n')
  t.match(updated, /^# A group\n# PORT=3000\n\n/)
  t.match(updated, /\n# NODE_ENV=development\n/)
  t.notMatch(updated, /NO_SUCH_SETTING/)
})

t.test('docs/operators/command-line.md lists each command, and its sections are commands', async (t) => {
  await loadCommands()
  await addOwn()
  const page = read('docs/operators/command-line.md')
  const names = listCommands(program).map(getName)
  for (const name of names) t.match(page, `\n  ${name} `)
  const titles = [...page.matchAll(/^## (.*)$/gm)].map(([, title = '']) => title)
  t.ok(titles.length > 3)
  t.same(
    titles.filter((title) => !names.includes(title)),
    [],
  )
})
