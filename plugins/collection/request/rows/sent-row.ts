/** A row of an import, as it was sent: what both formats are parsed to. */
import type { Violation } from '../../../../schemas/error.ts'
import type { Fields } from '../../../validation/schema-functions.ts'

export interface SentRow {
  /** From 1. */
  number: number
  /** The line on which the row starts, from 1. */
  line: number
  /** The body that the row means; undefined if it cannot be read. */
  value: Fields | undefined
  /** What is wrong with the text of the row. Fields are those of the row; '' is the row itself. */
  violations: readonly Violation[]
}

/** Parses the text of an import, in parts of any length. */
export interface RowParser {
  /** Whether the rest of the text cannot be parsed after an error. */
  readonly isStopped: boolean
  /** Whether the text had something that is not an empty line. */
  readonly hasContent: boolean
  /** @returns the rows that end in the part */
  push(text: string): SentRow[]
  /** @returns the rows that the end of the text ends */
  end(): Promise<SentRow[]>
}
