/** Writes the help of each command into docs/command-line.md: the first block of the section with its name. */
import { getName, listCommands, main, program } from '../src/cli/program.ts'

/** Returns what a command line prints. */
async function capture(args: readonly string[]): Promise<string> {
  const { log } = console
  let printed = ''
  console.log = (text: string) => {
    printed += `${text}\n`
  }
  try {
    await main(args)
  } finally {
    console.log = log
  }
  return printed.trim()
}

/** Returns a help text without the option that every command has. */
const removeHelpOption = (help: string) =>
  help.replace(/^ +-h, --help .*\n?/m, '').replace(/\n\nOptions:\n*$/, '')

/** Returns the page with the current help of each command that has a section. */
export async function updateCommandHelp(page: string): Promise<string> {
  const helps = new Map([['resource-api', await capture(['--help'])]])
  for (const command of listCommands(program)) {
    const name = getName(command)
    helps.set(name, await capture([...name.split(' '), '--help']))
  }
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
