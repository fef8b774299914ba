/** Renders --help, for all commands, for a group of them and for one. */
import { identity } from '../../lib/identity.ts'
import type { Command, Commands } from './command.ts'

const PROGRAM = identity.name

/** Formats two aligned columns. */
function formatTable(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}

const HELP = ['-h, --help', 'Show this help'] as const
const VERSION = ['-V, --version', 'Show the version'] as const

const formatCommands = (commands: Commands): string =>
  formatTable(Object.entries(commands).map(([name, { summary }]) => [name, summary]))

export const formatHelp = (commands: Commands): string => `Usage: ${PROGRAM} <command> [options]

Commands:
${formatCommands(commands)}

Options:
${formatTable([HELP, VERSION])}

'${PROGRAM} <command> --help' shows the help of one command. The settings (DATABASE_URL, DATA_DIR and
others) are environment variables. Exit codes: 0 success, 1 failure, 2 invalid command line.
`

/** @param commands those that begin with the word `group` */
export const formatGroupHelp = (
  group: string,
  commands: Commands,
): string => `Usage: ${PROGRAM} ${group} <command> [options]

Commands:
${formatCommands(commands)}

'${PROGRAM} ${group} <command> --help' shows the help of one command.
`

export async function formatCommandHelp(
  name: string,
  { summary, details, options, arguments: expected = {} }: Command,
): Promise<string> {
  const positionals = Object.entries(expected).map(([argument, help]) => [`<${argument}>`, help] as const)
  const placeholders = positionals.map(([argument]) => ` ${argument}`).join('')
  const rows = Object.entries(options).map(([option, { value, help, default: defaultValue }]) => {
    const meaning = defaultValue === undefined ? help : `${help} (default: ${defaultValue})`
    return [value === undefined ? `--${option}` : `--${option} <${value}>`, meaning] as const
  })
  const text = typeof details === 'function' ? await details() : details
  return `${summary}

Usage: ${PROGRAM} ${name}${placeholders}${rows.length > 0 ? ' [options]' : ''}
${positionals.length > 0 ? `\nArguments:\n${formatTable(positionals)}\n` : ''}
Options:
${formatTable([...rows, HELP])}
${text === undefined ? '' : `\n${text.trim()}\n`}`
}
