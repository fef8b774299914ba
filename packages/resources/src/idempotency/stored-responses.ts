/** Finds and stores the responses of writes with an `Idempotency-Key`, in the transaction of the write itself. */
import { channel } from 'node:diagnostics_channel'
import { createChallenge } from '@resource-api/api/access'
import { apiError } from '@resource-api/api/errors'
import { type Connection, prepare } from '@resource-api/database'
import { SqlError } from '@resource-api/database/errors'
import { hashForLock, idempotencyKeys as keys } from '@resource-api/database/tables'
import { getChannelName } from '@resource-api/database/values'
import { createPruning } from '@resource-api/work'
import { and, eq, getTableColumns, gt, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'

/** Diagnostics channels, from which metrics are counted. */
const channels = {
  replayed: channel(getChannelName('idempotency:replayed')),
  mismatch: channel(getChannelName('idempotency:mismatch')),
  'in-progress': channel(getChannelName('idempotency:in-progress')),
  pruned: channel(getChannelName('idempotency:pruned')),
}

/** @param message `{ count }` of expired records that were deleted, or nothing */
export const publish = (event: keyof typeof channels, message: { count?: number } = {}) =>
  channels[event].publish(message)

/** The key of one write. */
export interface IdempotencyKey {
  userId: string
  /** The hash of user, method, path and key. */
  id: string
  lockId: string
  /** Computes the hash of the body, when the body is validated and its schema bounds its size. */
  getBodyHash(): string
}

/** The response to a write, before the version of the request puts it into its envelope. */
export interface WriteResponse<Result = unknown> {
  status: number
  location: string | null
  /** Null for a response without an entity tag. */
  etag: string | null
  /** What the route returns; undefined for a response without a body. */
  result: Result
  /** The result to store, if it differs: it has no secrets. */
  storedResult?: Result | undefined
  /** Whether it comes from the record of an earlier request. */
  replayed?: boolean
}

/** How results are stored as text. */
export interface ResultFormat<Result> {
  write(result: Result): string
  read(text: string): Result
}

const { placeholder: value } = sql
const { created_at, ...stored } = getTableColumns(keys)
const excluded = ({ name }: PgColumn) => sql`excluded.${sql.identifier(name)}`

// A copy of the database in another schema has the same users: the key of the lock is that of the table.
const tryLock = prepare((db) =>
  db.execute<{ is_locked: boolean }>(
    sql`select pg_try_advisory_xact_lock(${hashForLock(keys, value('lockId'))}) as is_locked`,
  ),
)

const findRecord = prepare((db) =>
  db
    .select(stored)
    .from(keys)
    .where(
      and(
        eq(keys.user_id, value('userId')),
        eq(keys.id, value('id')),
        gt(created_at, sql`now() - interval '24 hours'`),
      ),
    ),
)

// Replaces an expired record that is not yet deleted; never overwrites another one. Citus accepts no `now()` in the
// condition: it is the default of `excluded.created_at`.
const storeRecord = prepare((db) =>
  db
    .insert(keys)
    .values({
      user_id: value('userId'),
      id: value('id'),
      body_hash: value('bodyHash'),
      status: value('status'),
      location: value('location'),
      etag: value('etag'),
      body: value('body'),
    })
    .onConflictDoUpdate({
      target: [keys.user_id, keys.id],
      set: Object.fromEntries(
        [created_at, ...Object.values(stored)].map((each) => [each.name, excluded(each)]),
      ),
      setWhere: sql`${excluded(created_at)} - ${created_at} >= interval '24 hours'`,
    })
    .returning({ status: keys.status }),
)

const pruneKeys = createPruning({
  table: keys,
  column: created_at,
  until: sql`now() - interval '24 hours'`,
})

/** Deletes expired records. @returns their number */
export async function prune(connection: Connection, isWanted?: () => boolean): Promise<number> {
  const count = await pruneKeys(connection, isWanted)
  if (count > 0) publish('pruned', { count })
  return count
}

/**
 * Locks a key on all replicas until the transaction ends. `findResponse` must follow as a statement of its own, since the
 * snapshot of a statement that takes the lock is older than the lock.
 * @returns false if another transaction has the lock
 */
export async function lockKey(tx: Connection, { lockId }: IdempotencyKey): Promise<boolean> {
  const [row] = await tryLock(tx, { lockId })
  return row?.is_locked === true
}

/**
 * Returns the stored response of an earlier request.
 * @throws ApiError 422 if that request had a different body
 */
export async function findResponse<Result>(
  connection: Connection,
  { userId, id, getBodyHash }: IdempotencyKey,
  format: ResultFormat<Result>,
): Promise<WriteResponse<Result> | undefined> {
  const [row] = await findRecord(connection, { userId, id })
  if (!row) return undefined
  if (row.body_hash !== getBodyHash()) {
    publish('mismatch')
    throw apiError('IDEMPOTENCY_KEY_REUSED')
  }
  const { status, location, etag, body } = row
  return { status, location, etag: etag || null, result: format.read(body), replayed: true }
}

/** Returns whether an earlier request has stored a response, whatever its body was. */
export async function hasResponse(connection: Connection, { userId, id }: IdempotencyKey): Promise<boolean> {
  const rows = await findRecord(connection, { userId, id })
  return rows.length > 0
}

const FOREIGN_KEY_VIOLATION = '23503'

/**
 * Stores a response.
 * @returns false if another request has stored a record despite the lock: the caller must roll back
 */
export async function keepResponse<Result>(
  tx: Connection,
  { userId, id, getBodyHash }: IdempotencyKey,
  { status, location, etag, result, storedResult = result }: WriteResponse<Result>,
  format: ResultFormat<Result>,
): Promise<boolean> {
  try {
    const bodyHash = getBodyHash()
    const body = format.write(storedResult)
    const records = await storeRecord(tx, { userId, id, bodyHash, status, location, etag: etag ?? '', body })
    return records.length > 0
  } catch (error) {
    // The user was deleted during the write, which is rolled back.
    const isUserDeleted = error instanceof SqlError && error.code === FOREIGN_KEY_VIOLATION
    throw isUserDeleted ? createChallenge({ cause: error }) : error
  }
}
