/** Writes the text about each error code, for the guide and docs/callers/error-codes.md, with the addresses of its sections. */
import {
  type FailureCode,
  type FailureDefinition,
  failureCodes,
  failures,
  fieldCodes,
  fieldFailures,
  MAX_VIOLATIONS,
} from '@resource-api/http/internal'
import { writeTable } from './access-tables.ts'

const fieldIntroduction = `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`

function getStatuses(code: FailureCode): readonly number[] {
  const { status, statuses = [status] }: FailureDefinition = failures[code]
  return statuses
}

/** Returns the title of the section about a code. The search of the documentation page reads titles only. */
const getTitle = (code: FailureCode) => `${getStatuses(code).join(', ')} ${code}`

/** Returns the fragment of a title, as GitHub and the documentation page have it. */
const toFragment = (title: string) => title.toLowerCase().replaceAll(',', '').replaceAll(' ', '-')

/** Writes a section, with what to do in bold. */
const writeSection = (title: string, { meaning, remedy }: { meaning: string; remedy?: string }) =>
  `${title}\n\n${meaning}.${remedy === undefined ? '' : ` **${remedy}.**`}`

/**
 * Returns sections about all codes, and then those of fields.
 * @param heading the marks of the level of the former, such as `###`
 */
export const writeErrorSections = (heading: string): string =>
  [
    ...failureCodes.map((code) => writeSection(`${heading} ${getTitle(code)}`, failures[code])),
    `## Codes of fields\n\n${fieldIntroduction}`,
    ...fieldCodes.map((code) => writeSection(`### ${code}`, fieldFailures[code])),
  ].join('\n\n')

/** What a client does about a status, whatever its code is. */
const remedies: readonly [statuses: readonly number[], remedy: string][] = [
  [[400, 422], 'Correct the request; `details` names the fields'],
  [[401], 'Sign in again'],
  [[403], 'Use a credential with the role and the scope'],
  [[404, 405, 501], 'Correct the path or the method'],
  [[406, 413, 414, 415, 431], 'Correct the headers, or send less'],
  [[409], 'Correct the fields in `details`, or send it again after `Retry-After`'],
  [[410], 'Use the next version, or read the collections again'],
  [[412, 428], 'Read the resource again, and send its `ETag`'],
  [[408, 429, 502, 503], 'Send it again, after `Retry-After` if there is one'],
  [[500], 'Report the `request_id`'],
]

/** Returns a table of all statuses, with links to the sections about their codes. */
export function writeStatusTable(): string {
  const rows = remedies.map(([statuses, remedy]) => {
    const codes = failureCodes.filter((code) => getStatuses(code).some((status) => statuses.includes(status)))
    const links = codes.map((code) => `[${code}](#${toFragment(getTitle(code))})`)
    return [statuses.join(', '), `**${remedy}.** ${links.join(', ')}`]
  })
  return writeTable(['Status', 'What to do, and the codes'], rows)
}

/** Returns the fragments of the sections by code, in lower case: that of a response if a field has the same code. */
export const listErrorFragments = (): Record<string, string> =>
  Object.fromEntries(
    [...fieldCodes.map((code) => [code, code]), ...failureCodes.map((code) => [code, getTitle(code)])].map(
      ([code = '', title = '']) => [code.toLowerCase(), toFragment(title)],
    ),
  )
