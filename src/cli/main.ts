/** Parses the command line, runs the command and returns the exit code. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { identity } from '../../lib/identity.ts'
import { release } from '../release.ts'
import { type Command, type Commands, checkChoices, type Flags, UsageError, type Values } from './command.ts'
import { explainError } from './explain.ts'
import { formatCommandHelp, formatGroupHelp, formatHelp } from './help.ts'
import { findSimilar, suggest } from './suggest.ts'

const HELP_WORDS = ['--help', '-h', 'help']
const VERSION_WORDS = ['--version', '-V']

/** Finds the command that the first one or two words name; returns it with the other words. */
function findCommand(
  commands: Commands,
  args: readonly string[],
): { name: string; command: Command; rest: string[] } | undefined {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ')
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command) return { name, command, rest: args.slice(words) }
  }
  return undefined
}

/** Returns the commands whose first word is `group`. */
const findGroup = (commands: Commands, group: string): Commands =>
  Object.fromEntries(Object.entries(commands).filter(([name]) => name.startsWith(`${group} `)))

/** Returns the error for words that name no command. */
function createUnknownCommandError(commands: Commands, args: readonly string[]): UsageError {
  const [first = '', second = ''] = args
  const pair = second === '' || second.startsWith('-') ? first : `${first} ${second}`
  const names = Object.keys(commands)
  const groups = names.flatMap((name) => (name.includes(' ') ? (name.split(' ')[0] ?? []) : []))
  if (groups.includes(first)) {
    const similar = findSimilar(
      second,
      Object.keys(findGroup(commands, first)).map((name) => name.slice(first.length + 1)),
    )
    return new UsageError(
      `Unknown command '${pair}'.${similar === undefined ? '' : ` Did you mean '${first} ${similar}'?`}`,
    )
  }
  const similarPair = findSimilar(pair, names)
  if (similarPair?.includes(' ')) return new UsageError(`Unknown command '${pair}'.${suggest(pair, names)}`)
  return new UsageError(`Unknown command '${first}'.${suggest(first, [...names, ...groups])}`)
}

/** Returns the positional arguments by name. @throws UsageError if one is missing or unexpected */
function readArguments(names: readonly string[], positionals: readonly string[]): Values {
  const missing = names[positionals.length]
  if (missing !== undefined) throw new UsageError(`<${missing}> is required`)
  const extra = positionals[names.length]
  if (extra !== undefined) throw new UsageError(`Unexpected argument '${extra}'`)
  return Object.fromEntries(names.map((name, i) => [name, positionals[i]]))
}

/** Returns an error of `parseArgs` as a UsageError, with a suggestion for an unknown option. */
function toUsageError(error: unknown, options: readonly string[]): unknown {
  if (!(error instanceof Error) || error instanceof UsageError) return error
  // The first sentence only: the second one explains positional arguments that begin with a dash.
  const message = error.message.split('. ')[0] ?? ''
  const unknown = /^Unknown option '(-[^']*)'/.exec(message)?.[1]
  const known = options.map((name) => `--${name}`)
  const hint = unknown === undefined ? '' : suggest(unknown, known)
  return new UsageError(`${message}.${hint}`, { cause: error })
}

interface Parsed {
  values: Values
  flags: Flags
}

/** Returns the values of arguments and options, or undefined for --help. @throws UsageError */
function parseValues({ options, arguments: expected = {} }: Command, args: string[]): Parsed | undefined {
  // Checked first, because other error messages quote arguments, and here they contain a password.
  if (args.some((arg) => /^--?p(ass(word|phrase)?)?(=|$)/.test(arg))) {
    throw new UsageError(
      'Do not pass a password as an argument, which `ps` shows to every user: enter it when asked, or pipe it in as the first line of standard input',
    )
  }
  const known: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean', short: 'h' } }
  for (const [name, { value, default: defaultValue }] of Object.entries(options)) {
    known[name] = {
      type: value === undefined ? 'boolean' : 'string',
      ...(defaultValue !== undefined && { default: defaultValue }),
    }
  }
  try {
    const parsed = parseArgs({ args, options: known, allowPositionals: true })
    if (parsed.values.help === true) return undefined
    const entries = Object.entries(parsed.values)
    const texts = entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : []))
    const values: Values = {
      ...Object.fromEntries(texts),
      ...readArguments(Object.keys(expected), parsed.positionals),
    }
    checkChoices(options, values)
    return { values, flags: new Set(entries.flatMap(([name, value]) => (value === true ? [name] : []))) }
  } catch (error) {
    throw toUsageError(error, ['help', ...Object.keys(options)])
  }
}

/** Prints a usage error, and where help is. @returns the exit code */
function reportUsageError({ message }: UsageError, command: string | undefined): number {
  const sentence = /[.?]$/.test(message) ? message : `${message}.`
  console.error(`${sentence}\nTry '${identity.name} ${command === undefined ? '' : `${command} `}--help'.`)
  return 2
}

/** Prints the help of all commands, of a group or of one. @returns the exit code; undefined if it was not asked for */
function printHelp(commands: Commands, args: readonly string[]): number | undefined {
  const [first = '', ...others] = args
  if (args.length === 0 || (HELP_WORDS.includes(first) && others.length === 0)) {
    console.log(formatHelp(commands))
    // Without a command this is an error, so that a script fails.
    return args.length === 0 ? 2 : 0
  }
  const group = findGroup(commands, first)
  const isHelp = others.length === 1 && HELP_WORDS.includes(others[0] ?? '')
  if (Object.keys(group).length === 0 || !(others.length === 0 || isHelp)) return undefined
  console.log(formatGroupHelp(first, group))
  return isHelp ? 0 : 2
}

/** Runs a command line. @returns the exit code */
export async function main(commands: Commands, args: readonly string[]): Promise<number> {
  // `help users create` is `users create --help`.
  if (args[0] === 'help' && args.length > 1) return main(commands, [...args.slice(1), '--help'])
  const code = printHelp(commands, args)
  if (code !== undefined) return code
  if (VERSION_WORDS.includes(args[0] ?? '')) {
    console.log(release)
    return 0
  }
  const found = findCommand(commands, args)
  if (!found) {
    const isGroup = Object.keys(findGroup(commands, args[0] ?? '')).length > 0
    return reportUsageError(createUnknownCommandError(commands, args), isGroup ? args[0] : undefined)
  }
  const { name, command, rest } = found
  try {
    const parsed = parseValues(command, rest)
    if (parsed) await command.run(parsed.values, parsed.flags)
    else console.log(await formatCommandHelp(name, command))
    return 0
  } catch (error) {
    if (error instanceof UsageError) return reportUsageError(error, name)
    console.error(explainError(`${name} failed`, error))
    return 1
  }
}
