/** One replica: its connections, how far it is behind, and whether it may be read from now. */

import { DatabaseUnavailable, SqlError } from '../errors.ts'
import type { Address } from '../server/address.ts'
import { Session } from '../server/connection.ts'
import { afterSockets, PING } from '../server/ping.ts'
import { createPool } from '../server/pool.ts'
import type { Known } from '../server/wal-position.ts'
import type { Connection, Row } from '../types.ts'

/** `new` until it is known; `foreign` is no standby, or one of another database. */
export type Standing = 'new' | 'up' | 'away' | 'behind' | 'foreign'

export interface ReplicaOptions {
  address: Address
  /** Connections at most. */
  size: number
  /** Milliseconds it may be behind. */
  bound: number
  lifetime: number | undefined
  onChange: (standing: Standing, why: string) => void
}

/** What is known of the primary. */
export interface Primary {
  /** Which database of which cluster; undefined until it has answered. */
  identity: string | undefined
  /** The latest of its positions that one who has replayed so much has reached. */
  reachedBy(replayed: number): Known | undefined
}

/** Of a standby this is that of its primary. */
export const IDENTITY = `current_database()::text || '/' || (select system_identifier from pg_control_system())`
const REPLAYED = `(pg_last_wal_replay_lsn() - '0/0')::int8`
const QUESTION = `select pg_is_in_recovery() as standby, ${REPLAYED} as replayed, ${IDENTITY} as identity`
const PROOF = `select pg_is_in_recovery() and ${REPLAYED} >= $1::int8 as holds`

/**
 * Milliseconds. A statement that takes longer is left for the primary to try, which then has its own five seconds of the
 * ten that an answer may take.
 */
const STATEMENT = 4000
const CONNECT = 1000
const UNKNOWN: Known = { time: Number.NEGATIVE_INFINITY, position: Number.POSITIVE_INFINITY }
/** Milliseconds one may wait for a connection here before the primary is asked. */
const WAIT = 250
/** Milliseconds within which it says how far it is; else it is away. */
const PATIENCE = 1000

/** SQLSTATE or the system's own code: no more of it may be told. */
export function reasonOf(error: unknown): string {
  if (error instanceof SqlError) return error.code
  if (!(error instanceof DatabaseUnavailable)) return 'unknown'
  const cause: unknown = error.cause instanceof Error ? Reflect.get(error.cause, 'code') : undefined
  return error.code ?? (typeof cause === 'string' ? cause : 'lost')
}

export function createReplica({ address, size, bound, lifetime, onChange }: ReplicaOptions) {
  let standing: Standing = 'new'
  /** What it is known to have. */
  let reached = UNKNOWN
  /** When the question was sent that is not answered. */
  let asked: number | undefined
  let isClosing = false

  const common = { address, lifetime, again: false }
  const pool = createPool({
    size,
    session: {
      ...{ ...common, statementTimeout: STATEMENT, connectTimeout: CONNECT },
      // Started again, a standby may show what it was a while ago; and who is new here may not be who was measured.
      greet: async (run) => {
        const isKnown = Number.isFinite(reached.position)
        const [row] = isKnown ? await run(PROOF, [reached.position]) : []
        if (row?.holds !== true) throw new DatabaseUnavailable('This replica is further behind than it was')
      },
    },
    gate: { wait: WAIT, queue: size },
  })
  const watch = new Session({ ...common, ...PING })

  const become = (next: Standing, why = '') => {
    if (standing === next) return
    standing = next
    onChange(next, why)
  }

  const leave = (next: 'away' | 'foreign', why: string) => {
    if (isClosing) return
    reached = UNKNOWN
    become(next, why)
    pool.abandon()
  }

  const lag = () => performance.now() - reached.time

  const judge = (row: Row | undefined, primary: Primary) => {
    if (primary.identity === undefined) return
    if (row?.standby !== true) return leave('foreign', 'it is no standby')
    if (row.identity !== primary.identity) return leave('foreign', 'it is a standby of another database')
    reached = primary.reachedBy(Number(row.replayed)) ?? reached
    if (lag() > bound) become('behind', `more than ${bound / 1000} s`)
    // Whoever has been left out must have caught up well before it is read from again, not to come and go.
    else if (standing === 'up' || lag() <= bound / 2) become('up')
  }

  return {
    label: address.label,
    standing: () => standing,
    /** Milliseconds since it is known to have had everything. */
    lag,
    load: pool.load,
    /** Whether it has all that was acknowledged up to the bound before now. */
    isUsable: () => standing === 'up' && lag() <= bound,
    isFull: () => pool.load().waiting >= size,
    run: ((text, params, options) => pool.run(text, params, options)) satisfies Connection['run'],

    /** Asks how far it is, unless it has not answered yet. */
    async look(primary: Primary) {
      if (asked !== undefined) return
      const since = performance.now()
      asked = since
      try {
        const [row] = await watch.run(QUESTION)
        if (asked === since) judge(row, primary)
      } catch (error) {
        if (asked === since) leave('away', reasonOf(error))
      } finally {
        if (asked === since) asked = undefined
      }
    },

    /** To be called several times a second: whoever is silent is given up. */
    check() {
      pool.check()
      const since = asked
      if (since === undefined || performance.now() - since < PATIENCE) return
      afterSockets(() => {
        if (asked !== since) return
        asked = undefined
        watch.abandon()
        leave('away', 'no answer')
      })
    },

    async close() {
      isClosing = true
      await pool.close()
      await watch.close()
    },
  }
}
