/** Finds and stores the responses of writes with an `Idempotency-Key`, in the transaction of the write itself. */
import { createHash } from 'node:crypto'
import { and, eq, getTableColumns, gt, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { SqlError } from '../../drizzle/client/errors.ts'
import { prepare } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { idempotencyKeys as keys, idempotencyReplies as replies } from '../../drizzle/idempotency-tables.ts'
import { createChallenge } from '../auth/challenge.ts'
import { apiError } from '../errors/index.ts'
import { publish } from './channels.ts'
import type { IdempotencyKey } from './key.ts'

/** A response to a write, as it is sent and stored. */
export interface StoredResponse {
  status: number
  location: string | null
  /** Null for a response without an entity tag. */
  etag: string | null
  body: string
  /** The body to store, if it differs: it has no secrets. */
  storedBody?: string | undefined
  /** Whether the write changed nothing. */
  isUnchanged?: boolean
  /** Whether it comes from the record of an earlier request. */
  replayed?: boolean
}

const value = sql.placeholder
const excluded = ({ name }: PgColumn) => sql`excluded.${sql.identifier(name)}`

// A copy of the database in another schema has the same users: the key of the lock is that of a schema.
const tryLock = prepare((db) =>
  db.execute<{ is_locked: boolean }>(
    sql`select pg_try_advisory_xact_lock(hashtextextended(current_schema(), ${value('lockId')}::bigint)) as is_locked`,
  ),
)

const findRecord = prepare((db) =>
  db
    .select({
      body_hash: keys.body_hash,
      status: keys.status,
      location: keys.location,
      etag: keys.etag,
      body: keys.body,
      reply_timestamp: keys.reply_timestamp,
      reply_body: sql<string | null>`${replies.body}`.as('reply_body'),
    })
    .from(keys)
    .leftJoin(replies, and(eq(replies.user_id, keys.user_id), eq(replies.id, keys.reply_id)))
    .where(
      and(
        eq(keys.user_id, value('userId')),
        eq(keys.id, value('id')),
        gt(keys.created_at, sql`now() - interval '24 hours'`),
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
      reply_id: value('replyId'),
      reply_timestamp: value('replyTimestamp'),
    })
    .onConflictDoUpdate({
      target: [keys.user_id, keys.id],
      set: Object.fromEntries(
        Object.values(getTableColumns(keys)).map((each) => [each.name, excluded(each)]),
      ),
      setWhere: sql`${excluded(keys.created_at)} - ${keys.created_at} >= interval '24 hours'`,
    })
    .returning({ status: keys.status }),
)

const storeReply = prepare((db) =>
  db
    .insert(replies)
    .values({ user_id: value('userId'), id: value('id'), body: value('body') })
    .onConflictDoUpdate({
      target: [replies.user_id, replies.id],
      set: { last_used_at: excluded(replies.last_used_at) },
    }),
)

const TIMESTAMP_PREFIX = '"timestamp":"'
const TIMESTAMP_LENGTH = '2026-11-21T09:30:00.000Z'.length

/** Returns the index of the timestamp. It is the last one in the text, since `meta` is the last field of a reply. */
const findTimestamp = (body: string) => body.lastIndexOf(TIMESTAMP_PREFIX) + TIMESTAMP_PREFIX.length

/**
 * Separates the timestamp from the body of a write that changed nothing, so that equal ones are stored once: each has the
 * whole resource, which may be a thousand times as long as the request. They differ only in `meta.timestamp`.
 */
function splitTimestamp(body: string) {
  const start = findTimestamp(body)
  const content = body.slice(0, start) + body.slice(start + TIMESTAMP_LENGTH)
  return {
    id: createHash('sha256').update(content).digest('base64url'),
    content,
    timestamp: body.slice(start, start + TIMESTAMP_LENGTH),
  }
}

/** Inserts the timestamp that `splitTimestamp` removed. */
function joinTimestamp(content: string, timestamp: string): string {
  const start = findTimestamp(content)
  return content.slice(0, start) + timestamp + content.slice(start)
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
export async function findResponse(
  connection: Connection,
  { userId, id, getBodyHash }: IdempotencyKey,
): Promise<StoredResponse | undefined> {
  const [row] = await findRecord(connection, { userId, id })
  if (!row) return undefined
  if (row.body_hash !== getBodyHash()) {
    publish('mismatch')
    throw apiError('IDEMPOTENCY_KEY_REUSED')
  }
  const { status, location, etag, reply_body, reply_timestamp } = row
  const body = row.body ?? joinTimestamp(reply_body ?? '', reply_timestamp ?? '')
  return { status, location, etag: etag || null, body, replayed: true }
}

const FOREIGN_KEY_VIOLATION = '23503'

/**
 * Stores a response. The body of a write that changed nothing is stored once for all keys with the same body.
 * @returns false if another request has stored a record despite the lock: the caller must roll back
 */
export async function keepResponse(
  tx: Connection,
  { userId, id, getBodyHash }: IdempotencyKey,
  { status, location, etag, body: sent, storedBody, isUnchanged }: StoredResponse,
): Promise<boolean> {
  const body = storedBody ?? sent
  const reply = isUnchanged ? splitTimestamp(body) : undefined
  try {
    if (reply) await storeReply(tx, { userId, id: reply.id, body: reply.content })
    const stored = await storeRecord(tx, {
      userId,
      id,
      bodyHash: getBodyHash(),
      status,
      location,
      etag: etag ?? '',
      body: reply ? null : body,
      replyId: reply?.id ?? null,
      replyTimestamp: reply?.timestamp ?? null,
    })
    return stored.length > 0
  } catch (error) {
    // The user was deleted during the write, which is rolled back.
    const isUserDeleted = error instanceof SqlError && error.code === FOREIGN_KEY_VIOLATION
    throw isUserDeleted ? createChallenge({ cause: error }) : error
  }
}
