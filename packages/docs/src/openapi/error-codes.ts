/** Writes the explanations of all error codes, for the documentation page and docs/callers/error-codes.md. */
import {
  type FailureCode,
  type FailureDefinition,
  failureCodes,
  failures,
  fieldMeanings,
  MAX_VIOLATIONS,
} from '@resource-api/http/internal'

/** Returns the name of a code in the fragment of a URL: `rate_limit_exceeded`. */
export const getAnchor = (code: FailureCode): string => code.toLowerCase()

/** Returns a Markdown table. */
const writeTable = (titles: readonly string[], rows: readonly (readonly string[])[]) =>
  [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

const fieldIntroduction = `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`
const fieldEntries = Object.entries(fieldMeanings)

const entries = failureCodes.map((code) => {
  const { status, statuses = [status], meaning, remedy }: FailureDefinition = failures[code]
  return { code, statuses, meaning, remedy }
})

/**
 * Explains all codes in Markdown: a table with links, and an entry for each code, also of a field. The search of the page
 * finds headings, not the rows of tables.
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
  const fields = fieldEntries.map(([code, meaning]) => `### ${code} in a field\n\n${meaning}.`)
  const table = writeTable(['Code', 'Status', 'Meaning'], rows)
  return [table, ...texts, fieldIntroduction, ...fields].join('\n\n')
}

/** Returns the tables of docs/callers/error-codes.md: of all codes with what to do, and of the codes of fields. */
export function writeErrorTables(): string {
  const rows = entries.map(({ code, statuses, meaning, remedy }) => [
    `\`${code}\``,
    statuses.join(', '),
    meaning,
    remedy,
  ])
  const table = writeTable(['Code', 'Status', 'Meaning', 'What to do'], rows)
  const fields = fieldEntries.map(([code, meaning]) => [`\`${code}\``, meaning])
  return [table, fieldIntroduction, writeTable(['Code of a field', 'Meaning'], fields)].join('\n\n')
}
