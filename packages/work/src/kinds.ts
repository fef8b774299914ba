/** What a kind of work is: what is done for a row, how many at a time, for how long, and what follows a failure. */
import { serializeError } from '@resource-api/database'
import type { Places } from './places.ts'

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
  endpoint_id: string | null
  event_id: string | null
  event_type: string | null
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
  /** Of a request to an endpoint. */
  sent?: { responseStatus: number | null; responseBody: string | null; durationMs: number }
  /** Why the endpoint may have to be disabled, if its URL is still this one. */
  disables?: { reason: 'gone' | 'exhausted'; url: string }
}

interface WorkContext<Details> {
  /** Aborted after the deadline, when another process may have the row, and at a shutdown. */
  signal: AbortSignal
  /** What `load` has read for the row. */
  details: Details | undefined
  /** Stores the payload before the end of the attempt. @returns whether the process still has the claim */
  save(payload: Record<string, unknown>): Promise<boolean>
}

export interface WorkKind<Details = unknown> {
  /** As in the column `kind`. */
  name: string
  /** Shares the places of the process among the rows. */
  places: Places
  /** The deadline of an attempt in milliseconds. */
  timeoutMs: number
  /** Milliseconds that a claim lasts without being renewed. Default: 30 s. */
  leaseMs?: number | undefined
  /** Whether attempts may go on for ten seconds at a shutdown. The others are aborted, and follow after it. */
  isPatient?: boolean
  /** Whether no attempt is given up that ignores its signal: the next one must not overlap with it. */
  isExclusive?: boolean
  /** Rows that are done are deleted so many days after they were added, deliveries also if they wait. Default: never. */
  keepDays?: number
  /** Another clock than the one of the database, in milliseconds since the epoch. */
  now?(): number
  /** Stores the row of a kind that has one. Called at the start, and if the row is missing. @returns whether it has changed */
  register?: () => Promise<boolean>
  /** Whether the row is as `register` has to store it. If not, it is called again. */
  isRegistered?: (payload: Record<string, unknown>) => boolean
  /** Reads what the attempts of rows need. A row without details is given back. One that makes it fail has failed. */
  load?(rows: readonly ClaimedWork[]): Promise<ReadonlyMap<string, Details>>
  /** Makes an attempt. */
  run(row: ClaimedWork, context: WorkContext<Details>): Promise<WorkResult>
  /** Says what follows an attempt that threw an error. Not called for one that was interrupted, which is given back. */
  fail(row: ClaimedWork, error: unknown, durationMs: number): WorkResult
  /** Called after results were stored. */
  afterSave?(results: readonly { row: ClaimedWork; result: WorkResult }[]): Promise<void>
}

/** Ends a claim whose attempt is not made, or was interrupted: the row stays due. */
export const GIVEN_BACK: WorkResult = { status: 'pending', delayMs: 0, isUncounted: true }

const MAX_ERROR_LENGTH = 1_000

/** Returns an error as it is stored: as in the log, without values of statements. PostgreSQL stores no NUL. */
export function toErrorText(error: unknown): string {
  const { type, message } = serializeError(error)
  return `${type}: ${message}`.replaceAll('\0', '').slice(0, MAX_ERROR_LENGTH)
}
