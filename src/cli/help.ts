/** What --help shows, of all commands and of one. */
import type { Command, Commands } from './command.ts'

const PROGRAM = 'resource-api'

/** Two columns, the second aligned. */
function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}

const HELP = ['--help', 'Show this, and do nothing'] as const

export const helpOf = (commands: Commands): string => `Usage: ${PROGRAM} <command> [options]

Commands:
${table(Object.entries(commands).map(([name, { summary }]) => [name, summary]))}

Options:
${table([HELP, ['--version', 'Show the version of this program']])}

'${PROGRAM} <command> --help' says more about one of them. The settings (DATABASE_URL, DATA_DIR and
the others) come from the environment. Exit codes: 0 done, 1 failed, 2 not understood.
`

export function helpOfOne(
  name: string,
  { summary, details, options, arguments: expected = {} }: Command,
): string {
  const named = Object.entries(expected).map(([argument, help]) => [`<${argument}>`, help] as const)
  const typed = named.map(([argument]) => ` ${argument}`).join('')
  const rows = Object.entries(options).map(([option, { value, help, default: usual }]) => {
    const text = usual === undefined ? help : `${help} (default: ${usual})`
    return [`--${option} <${value}>`, text] as const
  })
  return `${summary}

Usage: ${PROGRAM} ${name}${typed}${rows.length > 0 ? ' [options]' : ''}
${named.length > 0 ? `\nArguments:\n${table(named)}\n` : ''}
Options:
${table([...rows, HELP])}
${details === undefined ? '' : `\n${details.trim()}\n`}`
}
