/** Writes the explanations of all error codes, for the documentation page and docs/error-codes.md. */
import {
  type FailureCode,
  type FailureDefinition,
  failureCodes,
  failures,
  fieldMeanings,
  MAX_VIOLATIONS,
} from '../../schemas/error.ts'

/** Returns the name of a code in the fragment of a URL: `rate_limit_exceeded`. */
export const getAnchor = (code: FailureCode): string => code.toLowerCase()

/** Returns a Markdown table. */
const writeTable = (titles: readonly string[], rows: readonly (readonly string[])[]) =>
  [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

/** The codes of fields, with an introduction. */
const fieldCodes = [
  `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`,
  writeTable(
    ['Code of a field', 'Meaning'],
    Object.entries(fieldMeanings).map(([code, meaning]) => [`\`${code}\``, meaning]),
  ),
]

const entries = failureCodes.map((code) => {
  const { status, statuses = [status], meaning, remedy }: FailureDefinition = failures[code]
  return { code, statuses, meaning, remedy }
})

/**
 * Explains all codes in Markdown: a table with a link to the entry of each code, the codes of fields, and the entries.
 * @param getLink returns the URL of the entry of a code
 */
export function writeErrorCodes(getLink: (code: FailureCode) => string): string {
  const rows = entries.map(({ code, statuses, meaning }) => [
    `[\`${code}\`](${getLink(code)})`,
    statuses.join(', '),
    meaning,
  ])
  const texts = entries.map(
    ({ code, statuses, meaning, remedy }) =>
      `### ${code}\n\nStatus ${statuses.join(' or ')}. ${meaning}.\n\n**What to do:** ${remedy}.`,
  )
  return [writeTable(['Code', 'Status', 'Meaning'], rows), ...fieldCodes, ...texts].join('\n\n')
}

/** Returns the tables of docs/error-codes.md: of all codes with what to do, and of the codes of fields. */
export function writeErrorTables(): string {
  const rows = entries.map(({ code, statuses, meaning, remedy }) => [
    `\`${code}\``,
    statuses.join(', '),
    meaning,
    remedy,
  ])
  return [writeTable(['Code', 'Status', 'Meaning', 'What to do'], rows), ...fieldCodes].join('\n\n')
}
