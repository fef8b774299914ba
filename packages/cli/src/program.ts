/** The command line: all commands and their groups, the layout of their help, and exit codes. */
import { Command, CommanderError, type CommandUnknownOpts, Help } from '@commander-js/extra-typings'
import { identity, release } from '@resource-api/database'
import { explainError } from '@resource-api/http/config'
import { type CommandTools, commandTools } from './command-tools.ts'
import { UsageError } from './usage-error.ts'

/** The commands and groups by their first words, in the order of the help. Each is loaded when it is used. */
export type Commands = Readonly<Record<string, () => CommandUnknownOpts | Promise<CommandUnknownOpts>>>

let known: Commands = {}

/** Says which commands there are, before a command line is run. */
export function defineCommands(commands: Commands): void {
  known = commands
}

/** Wide enough for the paragraphs of the help. On every terminal, because docs/operators/command-line.md has the same text. */
const HELP_WIDTH = 120

/** Returns the words that run a command, after the name of the program. */
const getWords = (command: CommandUnknownOpts): string =>
  command.parent ? `${getWords(command.parent)} ${command.name()}` : command.name()

/** Returns the words that run a command, without the program: `users create`. */
export const getName = (command: CommandUnknownOpts): string =>
  getWords(command).slice(identity.program.length + 1)

const getHint = (command: CommandUnknownOpts): string => `Try '${getWords(command)} --help'.`

/** Returns the commands below a command that are no groups. Those of the program have the order of their list. */
export function listCommands({ commands, parent }: CommandUnknownOpts): CommandUnknownOpts[] {
  const names = Object.keys(known)
  const getRank = (command: CommandUnknownOpts) =>
    (names.indexOf(command.name()) + names.length + 1) % (names.length + 1)
  const ordered = parent ? commands : commands.toSorted((a, b) => getRank(a) - getRank(b))
  return ordered.flatMap((command) => (command.commands.length === 0 ? [command] : listCommands(command)))
}

export const program = new Command(identity.program)
  .usage('<command> [options]')
  .version(release, '-V, --version', 'Show the version')
  .helpOption('-h, --help', 'Show this help')
  // An option of the program comes before the command: `openapi --version` is one of the command.
  .enablePositionalOptions()
  // Throws instead of ending the process.
  .exitOverride()
  .configureOutput({
    writeOut: (text) => console.log(text.trimEnd()),
    writeErr: (text) => console.error(text.trimEnd()),
  })
  .configureHelp({
    helpWidth: HELP_WIDTH,
    subcommandTerm: getName,
    // Lists the commands of groups too. `visibleCommands` here would suggest them for a mistyped first word.
    formatHelp(command, helper) {
      helper.visibleCommands = listCommands
      return new Help().formatHelp(command, helper)
    },
  })
  .addHelpText(
    'after',
    `
'${identity.program} <command> --help' shows the help of one command. The settings (DATABASE_URL, DATA_DIR and
others) are environment variables. Exit codes: 0 success, 1 failure, 2 invalid command line.`,
  )

/** Adds a command, and those below it, with the settings of the program. */
function add(parent: CommandUnknownOpts, command: CommandUnknownOpts): void {
  parent.addCommand(command.copyInheritedSettings(program))
  command.showHelpAfterError(getHint(command))
}

export function createGroup(name: string, commands: readonly CommandUnknownOpts[]): CommandUnknownOpts {
  const group = new Command(name).usage('<command> [options]')
  for (const command of commands) add(group, command)
  return group
}

/** Adds commands of the product to the program, each once. Default: all. */
export async function loadCommands(names = Object.keys(known)): Promise<void> {
  for (const name of names) {
    const isLoaded = program.commands.some((command) => command.name() === name)
    const load = known[name]
    if (load && !isLoaded) add(program, await load())
  }
}

program.showHelpAfterError(getHint(program))

/** Loads what adds the commands of the application. */
export type LoadOwn = () => Promise<{ commands(tools: CommandTools): void }>

/** Adds the commands of the application, once. Loading its definitions takes 0.2 s, which other commands save. */
export async function addOwnCommands(load: LoadOwn): Promise<void> {
  if (hasOwnCommands) return
  hasOwnCommands = true
  const { commands } = await load()
  const former = new Set(program.commands)
  commands(commandTools(program))
  for (const command of program.commands.filter((each) => !former.has(each)))
    for (const each of [command, ...listCommands(command)])
      each.copyInheritedSettings(program).showHelpAfterError(getHint(each))
}
let hasOwnCommands = false

/** The command whose action runs. */
let running: CommandUnknownOpts = program
program.hook('preAction', (_, command) => {
  running = command
})

/** Runs a command line. @returns the exit code: 0 success, 1 failure, 2 invalid command line */
export async function main(args: readonly string[], loadOwn: LoadOwn): Promise<number> {
  try {
    // Before the parser, whose messages repeat arguments.
    if (args.some((arg) => /^--?p(ass(word|phrase)?)?(=|$)/.test(arg))) {
      throw new UsageError(
        'Do not pass a password as an argument, which `ps` shows to every user: enter it when asked, or pipe it in as the first line of standard input',
      )
    }
    const [word = ''] = args
    if (Object.hasOwn(known, word)) await loadCommands([word])
    else await loadCommands().then(() => addOwnCommands(loadOwn))
    await program.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    if (error instanceof UsageError) {
      console.error(`error: ${error.message}\n${getHint(running)}`)
      return 2
    }
    console.error(explainError(`${getName(running)} failed`, error))
    return 1
  }
}
