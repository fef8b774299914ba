/** Writes the text about each error code, for the guide and docs/callers/error-codes.md, with the addresses of its sections. */
import {
  type FailureCode,
  type FailureDefinition,
  failureCodes,
  failures,
  fieldMeanings,
  MAX_VIOLATIONS,
} from '@resource-api/http/internal'
import { writeTable } from './access-tables.ts'

const FIELDS_TITLE = 'Codes of fields'

const fieldIntroduction = `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`

/** Returns the title of the section about a code. The search of the documentation page reads titles only. */
function getTitle(code: FailureCode): string {
  const { status, statuses = [status] }: FailureDefinition = failures[code]
  return `${statuses.join(', ')} ${code}`
}

/** Returns the fragment of a title, as GitHub and the documentation page have it. */
const toFragment = (title: string) => title.toLowerCase().replaceAll(',', '').replaceAll(' ', '-')

/**
 * Returns sections about all codes, each with what to do in bold, and a table of the codes of fields.
 * @param heading the marks of their level, such as `###`
 */
export function writeErrorSections(heading: string): string {
  const sections = failureCodes.map(
    (code) => `${heading} ${getTitle(code)}\n\n${failures[code].meaning}. **${failures[code].remedy}.**`,
  )
  const fields = Object.entries(fieldMeanings).map(([code, meaning]) => [`\`${code}\``, meaning])
  const table = writeTable(['Code', 'Meaning'], fields)
  return [...sections, `${heading} ${FIELDS_TITLE}`, fieldIntroduction, table].join('\n\n')
}

/** Returns the fragments of the sections by code, in lower case: that of a response if a field has the same code. */
export const listErrorFragments = (): Record<string, string> =>
  Object.fromEntries([
    ...Object.keys(fieldMeanings).map((code) => [code.toLowerCase(), toFragment(FIELDS_TITLE)]),
    ...failureCodes.map((code) => [code.toLowerCase(), toFragment(getTitle(code))]),
  ])
