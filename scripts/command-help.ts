/** Writes the help of each command into docs/command-line.md: the first block of the section with its name. */
import { commands } from '../src/cli/commands.ts'
import { formatCommandHelp, formatHelp } from '../src/cli/help.ts'

/** Returns the help texts by the heading of their section. */
async function readHelps(): Promise<Map<string, string>> {
  const entries = Object.entries(commands).map(
    async ([name, command]) => [name, await formatCommandHelp(name, command)] as const,
  )
  return new Map([['resource-api', formatHelp(commands)], ...(await Promise.all(entries))])
}

/** Returns the page with the current help of each command that has a section. */
export async function updateCommandHelp(page: string): Promise<string> {
  const helps = await readHelps()
  const [intro = '', ...sections] = page.split(/^(?=## )/m)
  const updated = sections.map((section) => {
    const [heading = ''] = section.split('\n')
    const help = helps.get(heading.replace('## ', ''))
    return help === undefined
      ? section
      : section.replace(/```text\n[\s\S]*?\n```/, () => `\`\`\`text\n${help.trim()}\n\`\`\``)
  })
  return [intro, ...updated].join('')
}
