/** From what was typed to the command that does it, and to the exit code. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { release } from '../release.ts'
import { type Command, type Commands, UsageError, type Values } from './command.ts'
import { explain } from './explain.ts'
import { helpOf, helpOfOne } from './help.ts'

/** The command that the first words name, and the rest. */
function find(
  commands: Commands,
  args: readonly string[],
): { name: string; command: Command; rest: string[] } {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ')
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command) return { name, command, rest: args.slice(words) }
  }
  throw new UsageError(`There is no command '${args[0]}'`)
}

/** The arguments by their names. @throws UsageError where one is missing, or one is too many */
function readArguments(names: readonly string[], typed: readonly string[]): Values {
  const missing = names[typed.length]
  if (missing !== undefined) throw new UsageError(`<${missing}> is required`)
  const extra = typed[names.length]
  if (extra !== undefined) throw new UsageError(`Unexpected argument '${extra}'`)
  return Object.fromEntries(names.map((name, i) => [name, typed[i]]))
}

/** The values of arguments and options, or undefined where help is asked for. */
function read({ options, arguments: expected = {} }: Command, args: string[]): Values | undefined {
  const known: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean' } }
  // Before anything else is said of it: what follows is a secret, and would be said again.
  if (args.some((arg) => /^--?p(ass(word|phrase)?)?(=|$)/.test(arg))) {
    throw new UsageError(
      'A password is not an argument, since `ps` shows those to everybody: it is asked for, or piped in as the first line of standard input',
    )
  }
  for (const [name, { default: usual }] of Object.entries(options)) {
    known[name] = { type: 'string', ...(usual !== undefined && { default: usual }) }
  }
  try {
    const { values, positionals } = parseArgs({ args, options: known, allowPositionals: true })
    if (values.help === true) return undefined
    const texts = Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : undefined,
    ])
    return { ...Object.fromEntries(texts), ...readArguments(Object.keys(expected), positionals) }
  } catch (error) {
    if (!(error instanceof Error) || error instanceof UsageError) throw error
    // Its second sentence is about words that begin with a dash, of which there are none here.
    throw new UsageError(error.message.split('. ')[0], { cause: error })
  }
}

/** Does what was typed. @returns the exit code */
export async function main(commands: Commands, args: readonly string[]): Promise<number> {
  const [first = '--help'] = args
  if (first === '--help' || first === 'help') {
    console.log(helpOf(commands))
    // Nothing typed is nothing done: a script should notice.
    return args.length === 0 ? 2 : 0
  }
  if (first === '--version') {
    console.log(release)
    return 0
  }
  let named: string | undefined
  try {
    const { name, command, rest } = find(commands, args)
    named = name
    const values = read(command, rest)
    if (values) await command.run(values)
    else console.log(helpOfOne(name, command))
    return 0
  } catch (error) {
    if (!(error instanceof UsageError)) {
      console.error(explain(`${named} failed`, error))
      return 1
    }
    const more = named === undefined ? '' : `${named} `
    console.error(`${error.message}.\nTry 'resource-api ${more}--help'.`)
    return 2
  }
}
