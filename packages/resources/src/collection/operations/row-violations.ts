/** Collects what is wrong with the rows of an import. */

import { invalidBody, type Violation } from '@resource-api/http'
import { ApiError, createViolation, MAX_VIOLATIONS } from '@resource-api/http/internal'
import type { SentRow } from '../request/rows/read-pieces.ts'
import type { RowBodies } from '../request/rows/row-bodies.ts'
import { toOwnViolations } from './own-violations.ts'

/** The statuses of errors of a row; others are those of the request. */
const ROW_STATUSES: readonly number[] = [400, 403, 404, 409, 422]

export const isRowError = (error: unknown): error is ApiError =>
  error instanceof ApiError && ROW_STATUSES.includes(error.status)

export class RowViolations {
  readonly #bodies: RowBodies
  readonly #found: { number: number; violation: Violation }[] = []

  constructor(bodies: RowBodies) {
    this.#bodies = bodies
  }

  /** Whether there are as many as are reported. */
  get isFull(): boolean {
    return this.#found.length >= MAX_VIOLATIONS
  }

  /** @returns undefined, the result of a row that is wrong */
  add({ number, line, value }: SentRow, violations: readonly Violation[]): undefined {
    for (const { field, message, code } of violations.slice(0, MAX_VIOLATIONS)) {
      const path = field === '' ? '' : `.${this.#bodies.toRowField(field, value)}`
      const violation = createViolation(`rows.${number}${path}`, `${message} (line ${line})`, code)
      this.#found.push({ number, violation })
    }
  }

  addError(row: SentRow, error: ApiError): undefined {
    this.add(row, toOwnViolations(error, ''))
  }

  /** @throws ApiError 422 with the violations, in the order of the rows */
  throwIfAny(): void {
    if (this.#found.length === 0) return
    const sorted = this.#found.toSorted((a, b) => a.number - b.number)
    throw invalidBody(sorted.slice(0, MAX_VIOLATIONS).map(({ violation }) => violation))
  }
}
