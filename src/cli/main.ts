/** Parses the command line, runs the command and returns the exit code. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { release } from '../release.ts'
import { type Command, type Commands, UsageError, type Values } from './command.ts'
import { explainError } from './explain.ts'
import { formatCommandHelp, formatHelp } from './help.ts'

/** Finds the command that the first one or two words name; returns it with the other words. */
function findCommand(
  commands: Commands,
  args: readonly string[],
): { name: string; command: Command; rest: string[] } {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ')
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command) return { name, command, rest: args.slice(words) }
  }
  throw new UsageError(`Unknown command '${args[0]}'`)
}

/** Returns the positional arguments by name. @throws UsageError if one is missing or unexpected */
function readArguments(names: readonly string[], positionals: readonly string[]): Values {
  const missing = names[positionals.length]
  if (missing !== undefined) throw new UsageError(`<${missing}> is required`)
  const extra = positionals[names.length]
  if (extra !== undefined) throw new UsageError(`Unexpected argument '${extra}'`)
  return Object.fromEntries(names.map((name, i) => [name, positionals[i]]))
}

/** Returns the values of arguments and options, or undefined for --help. */
function parseValues({ options, arguments: expected = {} }: Command, args: string[]): Values | undefined {
  const known: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean' } }
  // Checked first, because other error messages quote arguments, and here they contain a password.
  if (args.some((arg) => /^--?p(ass(word|phrase)?)?(=|$)/.test(arg))) {
    throw new UsageError(
      'Do not pass a password as an argument, which `ps` shows to every user: enter it when asked, or pipe it in as the first line of standard input',
    )
  }
  for (const [name, { value, default: defaultValue }] of Object.entries(options)) {
    const type = value === undefined ? 'boolean' : 'string'
    known[name] = { type, ...(defaultValue !== undefined && { default: defaultValue }) }
  }
  try {
    const { values, positionals } = parseArgs({ args, options: known, allowPositionals: true })
    if (values.help === true) return undefined
    const texts = Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : value === true ? 'true' : undefined,
    ])
    return { ...Object.fromEntries(texts), ...readArguments(Object.keys(expected), positionals) }
  } catch (error) {
    if (!(error instanceof Error) || error instanceof UsageError) throw error
    // The first sentence only: the second one explains positional arguments that begin with a dash.
    throw new UsageError(error.message.split('. ')[0], { cause: error })
  }
}

/** Runs a command line. @returns the exit code */
export async function main(commands: Commands, args: readonly string[]): Promise<number> {
  const [first = '--help'] = args
  if (first === '--help' || first === 'help') {
    console.log(formatHelp(commands))
    // Without a command this is an error, so that a script fails.
    return args.length === 0 ? 2 : 0
  }
  if (first === '--version') {
    console.log(release)
    return 0
  }
  let commandName: string | undefined
  try {
    const { name, command, rest } = findCommand(commands, args)
    commandName = name
    const values = parseValues(command, rest)
    if (values) await command.run(values)
    else console.log(formatCommandHelp(name, command))
    return 0
  } catch (error) {
    if (!(error instanceof UsageError)) {
      console.error(explainError(`${commandName} failed`, error))
      return 1
    }
    const prefix = commandName === undefined ? '' : `${commandName} `
    console.error(`${error.message}.\nTry 'resource-api ${prefix}--help'.`)
    return 2
  }
}
