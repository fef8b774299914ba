/** Writes the usage and the options of each command into docs/command-line.md: the first block of the section with its name. */
import { getName, listCommands, program } from '../src/cli/program.ts'

/** Returns a help text without the option that every command has. */
const removeHelpOption = (help: string) =>
  help
    .replace(/^ +-h, --help .*\n?/m, '')
    .replace(/\n\nOptions:\n*$/, '')
    .trim()

/** Returns the page with the current usage of each command that has a section. */
export function updateCommandHelp(page: string): string {
  const helps = new Map([['resource-api', program.helpInformation()]])
  for (const command of listCommands(program)) helps.set(getName(command), command.helpInformation())
  const [intro = '', ...sections] = page.split(/^(?=## )/m)
  const updated = sections.map((section) => {
    const [heading = ''] = section.split('\n')
    const help = helps.get(heading.replace('## ', ''))
    return help === undefined
      ? section
      : section.replace(/```text\n[\s\S]*?\n```/, () => `\`\`\`text\n${removeHelpOption(help)}\n\`\`\``)
  })
  return [intro, ...updated].join('')
}
