/** docs/command-line.md has the help of every command as the command prints it, in the same order. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { commands } from '../../src/cli/commands.ts'
import { formatCommandHelp, formatHelp } from '../../src/cli/help.ts'

const page = readFileSync(new URL('../../docs/command-line.md', import.meta.url), 'utf8')
const sections = page
  .split(/^## /m)
  .slice(1)
  .map((section) => {
    const [title = '', ...lines] = section.split('\n')
    return { title, body: lines.join('\n') }
  })

t.test('the page has a section for each command', async (t) => {
  t.strictSame(
    sections.map(({ title }) => title),
    ['resource-api', ...Object.keys(commands)],
  )
})

t.test('a section shows the help of its command and an example', async (t) => {
  const helps = {
    'resource-api': formatHelp(commands),
    ...Object.fromEntries(
      Object.entries(commands).map(([name, command]) => [name, formatCommandHelp(name, command)]),
    ),
  }
  for (const [title, help] of Object.entries(helps)) {
    const body = sections.find((section) => section.title === title)?.body ?? ''
    const [, shown, rest = ''] = /^\n```text\n([\s\S]*?)\n```\n([\s\S]*)$/.exec(body) ?? []
    t.equal(shown, help.trim(), title)
    if (title !== 'resource-api') t.match(rest, /^```(json)?\n[^`]+\n```$/m, `an example of ${title}`)
  }
})
