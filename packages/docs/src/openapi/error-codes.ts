/** Writes the tables of all error codes, for the guide and docs/callers/error-codes.md. */
import {
  type FailureDefinition,
  failureCodes,
  failures,
  fieldMeanings,
  MAX_VIOLATIONS,
} from '@resource-api/http/internal'
import { writeTable } from './access-tables.ts'

const fieldIntroduction = `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`

/** Returns tables of all codes with what to do, and of the codes of fields. */
export function writeErrorTables(): string {
  const rows = failureCodes.map((code) => {
    const { status, statuses = [status], meaning, remedy }: FailureDefinition = failures[code]
    return [`\`${code}\``, statuses.join(', '), meaning, remedy]
  })
  const table = writeTable(['Code', 'Status', 'Meaning', 'What to do'], rows)
  const fields = Object.entries(fieldMeanings).map(([code, meaning]) => [`\`${code}\``, meaning])
  return [table, fieldIntroduction, writeTable(['Code of a field', 'Meaning'], fields)].join('\n\n')
}
