/** docs/command-line.md has the usage and the options of every command as its help prints them, in the same order. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { updateCommandHelp } from '../../scripts/command-help.ts'
import { addOwnCommands, getName, listCommands, program } from '../../src/cli/program.ts'

await addOwnCommands()
const page = readFileSync(new URL('../../docs/command-line.md', import.meta.url), 'utf8')
const sections = page
  .split(/^## /m)
  .slice(1)
  .map((section) => /^(?<title>.*)\n(?<body>[\s\S]*)$/.exec(section)?.groups ?? {})

t.test('the page has a section for each command', async (t) => {
  t.strictSame(
    sections.map(({ title }) => title),
    ['resource-api', ...listCommands(program).map(getName)],
  )
})

t.test('a section shows the usage and the options of its command, and an example', async (t) => {
  t.equal(await updateCommandHelp(page), page, 'run `npm run docs` to update docs/command-line.md')
  for (const { title, body = '' } of sections.slice(1)) {
    const [, rest = ''] = /^\n```text\n[\s\S]*?\n```\n([\s\S]*)$/.exec(body) ?? []
    t.match(rest, /^```(json)?\n[^`]+\n```$/m, `an example of ${title}`)
  }
})
