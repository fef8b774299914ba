/** The violations of one write among many: of an operation of a batch, or of a row of an import. */

import type { Violation } from '@resource-api/http'
import { type ApiError, createViolation, type FieldCode } from '@resource-api/http/internal'

/** The codes of an error without fields, by its status. */
const CODES: Readonly<Record<number, FieldCode>> = {
  400: 'INVALID_FORMAT',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
}

/** Returns the violations of an error; one with the field of the write itself if the error names no field. */
export const toOwnViolations = (
  { violations, message, status }: ApiError,
  field: string,
): readonly Violation[] =>
  violations.length > 0 ? violations : [createViolation(field, message, CODES[status] ?? 'INVALID_VALUE')]
