/** The records of keyed writes: found, and kept in the transaction of the write itself. */
import { createHash, createHmac } from 'node:crypto'
import { configure } from 'safe-stable-stringify'
import { SqlError } from '../../drizzle/client/errors.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { apiError } from '../errors/index.ts'
import { publish } from './channels.ts'
import { joinTimestamp, splitTimestamp } from './unchanged-reply.ts'

/** A reply to a write, as it is sent and as it is kept. */
export interface Told {
  status: number
  location: string | null
  etag: string
  body: string
  /** Whether it was told before. */
  replayed?: boolean
}

/** What a write is known by. */
export interface Name {
  userId: string
  method: string
  /** The canonical one, with its version. */
  path: string
  key: string
}

const LIFE = `interval '24 hours'`

const LOCK = 'select pg_try_advisory_xact_lock($1::bigint) as alone'

const FIND = `select k.body_hash, k.status, k.location, k.etag, k.body, k.reply_timestamp, r.body as reply_body
  from idempotency_keys k left join idempotency_replies r on r.user_id = k.user_id and r.id = k.reply_id
  where k.user_id = $1 and k.id = $2 and k.created_at > now() - ${LIFE}`

// One that has grown old and was not yet removed gives way; one that has not is never overwritten.
const KEEP = `insert into idempotency_keys as kept
    (user_id, id, body_hash, status, location, etag, body, reply_id, reply_timestamp)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  on conflict (user_id, id) do update set body_hash = excluded.body_hash, status = excluded.status,
    location = excluded.location, etag = excluded.etag, body = excluded.body, reply_id = excluded.reply_id,
    reply_timestamp = excluded.reply_timestamp, created_at = excluded.created_at
  where kept.created_at <= now() - ${LIFE}
  returning status`

// $7 is null: the body goes to idempotency_replies, once for all keys that got the same one.
const KEEP_UNCHANGED = `with reply as (
    insert into idempotency_replies (user_id, id, body) values ($1, $8, $10)
    on conflict (user_id, id) do update set last_used_at = now()
  ) ${KEEP}`

const FOREIGN_KEY = '23503'

/** The same text for the same JSON, whatever order the members of its objects stand in. */
const canonical = configure({ deterministic: true, bigint: false })

/** Who wrote is gone by now, and the write with them. */
const gone = (cause: unknown) =>
  apiError('UNAUTHORIZED', { headers: { 'WWW-Authenticate': 'Bearer realm="resource-api"' }, cause })

/**
 * @param secret hashes bodies: they may hold passwords, which a plain hash would let be guessed
 */
export function createRecord(secret: Buffer, { userId, method, path, key }: Name, sent: unknown) {
  const digest = createHash('sha256')
    .update(JSON.stringify([userId, method, path, key]))
    .digest()
  const id = digest.toString('base64url')
  const lockId = digest.readBigInt64BE().toString()
  /** Made when it is first needed: by then the body has been validated, and what it holds is bounded by its schema. */
  let bodyHash: string | undefined
  const getBodyHash = () => {
    bodyHash ??= createHmac('sha256', secret)
      .update(canonical(sent) ?? '')
      .digest('base64url')
    return bodyHash
  }

  return {
    id,

    /**
     * Until the transaction ends, nobody else on this database gets this lock. `find` comes after it, as a statement
     * of its own: what one statement sees of others was settled before it could have waited for the lock.
     */
    async lock(tx: Connection): Promise<boolean> {
      const [row] = await tx.run(LOCK, [lockId])
      return row?.alone === true
    },

    /** @throws ApiError 422 where the key came with another body */
    async find(connection: Connection): Promise<Told | undefined> {
      const [row] = await connection.run(FIND, [userId, id])
      if (!row) return undefined
      if (row.body_hash !== getBodyHash()) {
        publish('mismatch')
        throw apiError('IDEMPOTENCY_KEY_REUSED')
      }
      return {
        status: Number(row.status),
        location: row.location === null ? null : String(row.location),
        etag: String(row.etag),
        body:
          row.body === null
            ? joinTimestamp(String(row.reply_body), String(row.reply_timestamp))
            : String(row.body),
        replayed: true,
      }
    },

    /**
     * @param isUnchanged whether the write changed nothing
     * @returns false if another request has stored a record in spite of the lock; the transaction must be rolled back then
     */
    async keep(
      tx: Connection,
      { status, location, etag, body }: Told,
      isUnchanged: boolean,
    ): Promise<boolean> {
      const common = [userId, id, getBodyHash(), status, location, etag]
      const keep = () => {
        if (!isUnchanged) return tx.run(KEEP, [...common, body, null, null])
        const reply = splitTimestamp(body)
        return tx.run(KEEP_UNCHANGED, [...common, null, reply.id, reply.timestamp, reply.content])
      }
      try {
        const rows = await keep()
        return rows.length > 0
      } catch (error) {
        throw error instanceof SqlError && error.code === FOREIGN_KEY ? gone(error) : error
      }
    },
  }
}

export type KeptRecord = ReturnType<typeof createRecord>
