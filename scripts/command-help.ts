/** Writes the list of the commands into docs/operators/command-line.md: its only block of the type `text`. */
import '../src/application.ts'
import { loadCommands, program } from '../packages/cli/src/program.ts'
import { addOwn } from '../src/commands.ts'

/** Returns the page with the current list of the commands, without the option that every program has. */
export async function updateCommandHelp(page: string): Promise<string> {
  await loadCommands()
  await addOwn()
  const help = program.helpInformation().replace(/^ +-h, --help .*$\n?/gm, '')
  return page.replace(/```text\n[\s\S]*?\n```/, () => `\`\`\`text\n${help.trim()}\n\`\`\``)
}
