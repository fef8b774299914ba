/** Writes the usage and the options of each command into docs/command-line.md: the first block of the section with its name. */
import { identity } from '../packages/database/src/lib/identity.ts'
import { getName, listCommands, loadCommands, program } from '../packages/http/src/commands/program.ts'
import { addOwn } from '../src/commands.ts'

/** Returns a help text without what stands elsewhere on the page: the description, `--help` and a plain `--json`. */
const shortenHelp = (help: string) =>
  help
    .replace(/^ +(?:-h, --help .*|--json +Print JSON)$\n?/gm, '')
    .replace(/^(Usage: .*\n\n)(?!Options:)[^\n]+(?:\n[^\n]+)*\n*/, '$1')
    .replace(/\n\nOptions:\n*$/, '')
    .trim()

/** Returns the section of a command that has none, such as one of `src/own.ts`. */
const buildSection = (name: string, help: string) =>
  `\n## ${name}\n\n\`\`\`text\n${shortenHelp(help)}\n\`\`\`\n\n\`\`\`\n$ npx ${identity.name} ${name}\n\`\`\`\n`

/** Returns the page with the current usage of each command. */
export async function updateCommandHelp(page: string): Promise<string> {
  await loadCommands()
  await addOwn()
  const helps = new Map([['resource-api', program.helpInformation()]])
  for (const command of listCommands(program)) helps.set(getName(command), command.helpInformation())
  const [intro = '', ...sections] = page.split(/^(?=## )/m)
  const updated = sections.map((section) => {
    const [heading = ''] = section.split('\n')
    const help = helps.get(heading.replace('## ', ''))
    return help === undefined
      ? section
      : section.replace(/```text\n[\s\S]*?\n```/, () => `\`\`\`text\n${shortenHelp(help)}\n\`\`\``)
  })
  const headings = new Set(sections.map((section) => /^## (.*)/.exec(section)?.[1]))
  const added = [...helps]
    .filter(([name]) => !headings.has(name))
    .map(([name, help]) => buildSection(name, help))
  return [intro, ...updated, ...added].join('')
}
