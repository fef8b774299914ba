/** Renders --help, for all commands and for one. */
import type { Command, Commands } from './command.ts'

const PROGRAM = 'resource-api'

/** Formats two aligned columns. */
function formatTable(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}

const HELP = ['--help', 'Show this help'] as const

export const formatHelp = (commands: Commands): string => `Usage: ${PROGRAM} <command> [options]

Commands:
${formatTable(Object.entries(commands).map(([name, { summary }]) => [name, summary]))}

Options:
${formatTable([HELP, ['--version', 'Show the version']])}

'${PROGRAM} <command> --help' shows the help of one command. The settings (DATABASE_URL, DATA_DIR and
others) are environment variables. Exit codes: 0 success, 1 failure, 2 invalid command line.
`

export function formatCommandHelp(
  name: string,
  { summary, details, options, arguments: expected = {} }: Command,
): string {
  const positionals = Object.entries(expected).map(([argument, help]) => [`<${argument}>`, help] as const)
  const placeholders = positionals.map(([argument]) => ` ${argument}`).join('')
  const rows = Object.entries(options).map(([option, { value, help, default: defaultValue }]) => {
    const text = defaultValue === undefined ? help : `${help} (default: ${defaultValue})`
    return [value === undefined ? `--${option}` : `--${option} <${value}>`, text] as const
  })
  return `${summary}

Usage: ${PROGRAM} ${name}${placeholders}${rows.length > 0 ? ' [options]' : ''}
${positionals.length > 0 ? `\nArguments:\n${formatTable(positionals)}\n` : ''}
Options:
${formatTable([...rows, HELP])}
${details === undefined ? '' : `\n${details.trim()}\n`}`
}
