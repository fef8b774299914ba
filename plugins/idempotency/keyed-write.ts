/** A write with an `Idempotency-Key`: finds and stores its response, in the transaction of the write itself. */
import { createHash, createHmac } from 'node:crypto'
import { configure } from 'safe-stable-stringify'
import { SqlError } from '../../drizzle/client/errors.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { createChallenge } from '../auth/challenge.ts'
import { apiError } from '../errors/index.ts'
import { publish } from './channels.ts'
import { joinTimestamp, splitTimestamp } from './unchanged-reply.ts'

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

/** What identifies a keyed write. */
export interface Identity {
  userId: string
  method: string
  /** The canonical path, with its version. */
  path: string
  key: string
}

const RETENTION = `interval '24 hours'`

/** A copy of the database in another schema has the same users: the key of the lock is that of a schema. */
const LOCK = 'select pg_try_advisory_xact_lock(hashtextextended(current_schema(), $1::bigint)) as is_locked'

const FIND = `select k.body_hash, k.status, k.location, k.etag, k.body, k.reply_timestamp, r.body as reply_body
  from idempotency_keys k left join idempotency_replies r on r.user_id = k.user_id and r.id = k.reply_id
  where k.user_id = $1 and k.id = $2 and k.created_at > now() - ${RETENTION}`

// Replaces an expired record that is not yet deleted; never overwrites another one. Citus accepts no `now()` in the
// condition: it is the default of `excluded.created_at`.
const STORE = `insert into idempotency_keys as kept
    (user_id, id, body_hash, status, location, etag, body, reply_id, reply_timestamp)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  on conflict (user_id, id) do update set body_hash = excluded.body_hash, status = excluded.status,
    location = excluded.location, etag = excluded.etag, body = excluded.body, reply_id = excluded.reply_id,
    reply_timestamp = excluded.reply_timestamp, created_at = excluded.created_at
  where excluded.created_at - kept.created_at >= ${RETENTION}
  returning status`

// $7 is null: the body goes to idempotency_replies, where all keys with the same reply share it.
const STORE_UNCHANGED = `with reply as (
    insert into idempotency_replies (user_id, id, body) values ($1, $8, $10)
    on conflict (user_id, id) do update set last_used_at = excluded.last_used_at
  ) ${STORE}`

interface StoredRow {
  body_hash: string
  status: number
  location: string | null
  etag: string
  /** Null if the body is in `idempotency_replies`. */
  body: string | null
  reply_timestamp: string | null
  reply_body: string | null
}

const FOREIGN_KEY_VIOLATION = '23503'

/** Serializes equal JSON to equal text, whatever the order of the fields. */
const stringifyCanonically = configure({ deterministic: true, bigint: false })

export class KeyedWrite {
  readonly #userId: string
  readonly #id: string
  readonly #lockId: string
  readonly #body: unknown
  readonly #secret: Buffer
  readonly #running: Set<string>
  #bodyHash: string | undefined

  /**
   * @param body of the request
   * @param secret key of the HMAC of the body, which may contain a password: a plain hash could be brute-forced
   * @param running the keyed writes that this process is running
   */
  constructor(
    { userId, method, path, key }: Identity,
    body: unknown,
    { secret, running }: { secret: Buffer; running: Set<string> },
  ) {
    const digest = createHash('sha256')
      .update(JSON.stringify([userId, method, path, key]))
      .digest()
    this.#userId = userId
    this.#id = digest.toString('base64url')
    this.#lockId = digest.readBigInt64BE().toString()
    this.#body = body
    this.#secret = secret
    this.#running = running
  }

  /** Computed when first needed: by then the body is validated, and its schema bounds its size. */
  #getBodyHash(): string {
    this.#bodyHash ??= createHmac('sha256', this.#secret)
      .update(stringifyCanonically(this.#body) ?? '')
      .digest('base64url')
    return this.#bodyHash
  }

  /**
   * Reserves the key in this process, before the write waits for a connection or hashes a password.
   * @returns a function that releases the key; undefined if a write with the same key is running
   */
  begin(): (() => void) | undefined {
    if (this.#running.has(this.#id)) return undefined
    this.#running.add(this.#id)
    return () => {
      this.#running.delete(this.#id)
    }
  }

  /**
   * Locks the key on all replicas until the transaction ends. `find` must follow as a statement of its own, since the
   * snapshot of a statement that takes the lock is older than the lock.
   * @returns false if another transaction has the lock
   */
  async lock(tx: Connection): Promise<boolean> {
    const [row] = await queryRows<{ is_locked: boolean }>(tx, LOCK, [this.#lockId])
    return row?.is_locked === true
  }

  /**
   * Returns the stored response of an earlier request.
   * @throws ApiError 422 if that request had a different body
   */
  async find(connection: Connection): Promise<StoredResponse | undefined> {
    const [row] = await queryRows<StoredRow>(connection, FIND, [this.#userId, this.#id])
    if (!row) return undefined
    if (row.body_hash !== this.#getBodyHash()) {
      publish('mismatch')
      throw apiError('IDEMPOTENCY_KEY_REUSED')
    }
    const { status, location, etag, reply_body, reply_timestamp } = row
    const body = row.body ?? joinTimestamp(reply_body ?? '', reply_timestamp ?? '')
    return { status, location, etag: etag || null, body, replayed: true }
  }

  /**
   * Stores the response.
   * @returns false if another request has stored a record despite the lock: the caller must roll back
   */
  async keep(
    tx: Connection,
    { status, location, etag, body: sent, storedBody, isUnchanged }: StoredResponse,
  ): Promise<boolean> {
    const common = [this.#userId, this.#id, this.#getBodyHash(), status, location, etag ?? '']
    const body = storedBody ?? sent
    const reply = isUnchanged ? splitTimestamp(body) : undefined
    try {
      const rows = reply
        ? await tx.run(STORE_UNCHANGED, [...common, null, reply.id, reply.timestamp, reply.content])
        : await tx.run(STORE, [...common, body, null, null])
      return rows.length > 0
    } catch (error) {
      // The user was deleted during the write, which is rolled back.
      const isUserDeleted = error instanceof SqlError && error.code === FOREIGN_KEY_VIOLATION
      throw isUserDeleted ? createChallenge({ cause: error }) : error
    }
  }
}
