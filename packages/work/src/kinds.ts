/** What a kind of work is: what is done for a row, how many at a time, for how long, and what follows a failure. */
import { serializeError } from '@resource-api/database/errors'
import type { SQL } from 'drizzle-orm'
import type { Slots } from './slots.ts'

/** A row that this process has claimed. No other process has its claim. */
export type ClaimedWork = {
  id: string
  kind: string
  key: string | null
  payload: Record<string, unknown>
  claim_id: string
  /** The number of the attempt, from 1. */
  attempts: number
  created_at: string
  /** One of the groups of its kind, or `NO_GROUP`. */
  group: string
}

/** What became of an attempt. */
export interface WorkResult {
  status: 'pending' | 'succeeded' | 'failed'
  /** Milliseconds until the next attempt of a pending row; null: not until something makes it due. */
  delayMs?: number | null
  /** When it is due, in milliseconds since the epoch, in place of `delayMs`. */
  dueAt?: number
  /** Why the attempt failed; null for none. Absent: what the attempt before has left stays. */
  error?: string | null
  /** Takes the place of the one of the row. */
  payload?: Record<string, unknown>
  /** Whether the attempt does not count. */
  isUncounted?: boolean
  /** Whether the row is deleted. */
  isRemoved?: boolean
  /** What the called service has answered, and after how long. Rows of a kind with groups keep it. */
  outcome?: { code: number | null; text: string | null; durationMs: number }
}

interface WorkContext<Details> {
  /** Aborted after the deadline, when another process may have the row, and at a shutdown. */
  signal: AbortSignal
  /** What `load` has read for the row. */
  details: Details | undefined
  /** Stores the payload before the end of the attempt. @returns whether the process still has the claim */
  save(payload: Record<string, unknown>): Promise<boolean>
}

export interface WorkKind<Details = unknown, Result extends WorkResult = WorkResult> {
  /** As in the column `kind`. */
  name: string
  /**
   * A query of the groups of its rows from which may be claimed, with their ids as `id` and what the slots need as `state`,
   * in JSON. A row has its group in the column `endpoint_id`. Default: no groups.
   */
  groups?: SQL
  /** Shares the slots of the process among the rows. */
  slots: Slots
  /** The deadline of an attempt in milliseconds. */
  timeoutMs: number
  /** Milliseconds that a claim lasts without being renewed. Default: 30 s. */
  leaseMs?: number | undefined
  /** Whether attempts may go on for ten seconds at a shutdown. The others are aborted, and follow after it. */
  isPatient?: boolean
  /** Whether no attempt is given up that ignores its signal: the next one must not overlap with it. */
  isExclusive?: boolean
  /** Rows that are done are deleted so many days after they were added. Default: never. */
  keepDays?: number
  /** Whether rows that wait are deleted then too. */
  deletesWaiting?: boolean
  /** Another clock than the one of the database, in milliseconds since the epoch. */
  now?(): number
  /** Stores the row of a kind that has one. Called at the start, and if the row is missing. @returns whether it has changed */
  register?: () => Promise<boolean>
  /** Whether the row is as `register` has to store it. If not, it is called again. */
  isRegistered?: (payload: Record<string, unknown>) => boolean
  /** Reads what the attempts of rows need. A row without details is given back. One that makes it fail has failed. */
  load?(rows: readonly ClaimedWork[]): Promise<ReadonlyMap<string, Details>>
  /** Makes an attempt. */
  run(row: ClaimedWork, context: WorkContext<Details>): Promise<Result>
  /** Says what follows an attempt that threw an error. Not called for one that was interrupted, which is given back. */
  fail(row: ClaimedWork, error: unknown, durationMs: number): Result
  /** Called after results were stored. */
  afterSave?(results: readonly { row: ClaimedWork; result: Result }[]): Promise<void>
}

/** Ends a claim whose attempt is not made, or was interrupted: the row stays due. */
export const GIVEN_BACK: WorkResult = { status: 'pending', delayMs: 0, isUncounted: true }

const MAX_ERROR_LENGTH = 1_000

/** Returns an error as it is stored: as in the log, without values of statements. PostgreSQL stores no NUL. */
export function toErrorText(error: unknown): string {
  const { type, message } = serializeError(error)
  return `${type}: ${message}`.replaceAll('\0', '').slice(0, MAX_ERROR_LENGTH)
}
