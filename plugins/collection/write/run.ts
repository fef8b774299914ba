/** The course of a write; with an Idempotency-Key it is done once, and answered alike as often as it is sent. */
import type { Connection, Database } from '../../../drizzle/client/types.ts'
import { apiError } from '../../errors/index.ts'
import { publish } from '../../idempotency/channels.ts'
import type { KeyedWrite } from '../../idempotency/index.ts'
import type { StoredResponse } from '../../idempotency/record.ts'
import type { Row } from '../definition.ts'
import { Outrun } from '../sql/write.ts'

/** The steps of a write, each of which may refuse it. */
export interface Steps<A, P> {
  /** What is addressed, if it is there (404) and the caller may touch it (403); locked where asked for. */
  admit(connection: Connection, lock: boolean): Promise<A>
  /** Slow work, done before the transaction begins, on what was admitted then. */
  prepare?: ((seen: A) => Promise<P>) | undefined
  /** Whether a write left the row as it was admitted. */
  isUnchanged(admitted: A, row: Row): boolean
  /** Whether the write is one statement, which holds only for the row as it was read: then it needs no transaction. */
  isSingle: boolean
  /** The write itself. */
  act(tx: Connection, admitted: A, prepared: P | undefined): Promise<Row>
}

export interface Telling {
  attempt: KeyedWrite | undefined
  /** The reply for a row that was written. */
  tell(row: Row): StoredResponse
}

const inProgress = () => {
  publish('in-progress')
  return apiError('RESOURCE_CONFLICT', {
    message: 'A request with this Idempotency-Key is still running',
    retryAfter: 1,
  })
}

/** Two did the same write in spite of the lock: the later one undoes its own, and then finds the other's reply. */
class Overtaken extends Error {}

export function createOnce(database: Database, columns: ReadonlySet<string>) {
  /** A row as the table holds it: what no column holds, such as a new key's text, is for the first reply alone. */
  const lasting = (row: Row): Row => {
    const kept = Object.entries(row).filter(([name]) => columns.has(name))
    return { ...Object.fromEntries(kept), id: row.id, revision: row.revision }
  }

  const locked = <A, P>({ admit, act }: Steps<A, P>, prepared: P | undefined): Promise<Row> =>
    database.transaction(async (tx) => act(tx, await admit(tx, true), prepared))

  const single = <A, P>(steps: Steps<A, P>, prepared: P | undefined): Promise<Row> =>
    steps
      .admit(database, false)
      .then((admitted) => steps.act(database, admitted, prepared))
      .catch((error) => {
        if (!(error instanceof Outrun)) throw error
        return locked(steps, prepared)
      })

  const plain = async <A, P>({ tell }: Telling, steps: Steps<A, P>): Promise<StoredResponse> => {
    const { admit, prepare, isSingle } = steps
    const prepared = prepare && (await prepare(await admit(database, false)))
    return tell(await (isSingle ? single : locked)(steps, prepared))
  }

  const within = async <A, P>(
    attempt: KeyedWrite,
    { tell }: Telling,
    { admit, act, isUnchanged }: Steps<A, P>,
    prepared: P | undefined,
    tx: Connection,
  ): Promise<StoredResponse> => {
    const isAlone = await attempt.lock(tx)
    const admitted = await admit(tx, isAlone)
    if (!isAlone) throw inProgress()
    const before = await attempt.find(tx)
    if (before) return before
    const row = await act(tx, admitted, prepared)
    const told = tell(row)
    const kept = Object.keys(row).every((name) => columns.has(name)) ? told : tell(lasting(row))
    if (!(await attempt.keep(tx, kept, isUnchanged(admitted, row)))) throw new Overtaken()
    return told
  }

  const named = async <A, P>(
    attempt: KeyedWrite,
    telling: Telling,
    steps: Steps<A, P>,
  ): Promise<StoredResponse> => {
    const run = async (prepared: P | undefined): Promise<StoredResponse> => {
      const work = () => database.transaction((tx) => within(attempt, telling, steps, prepared, tx))
      try {
        return await work()
      } catch (error) {
        if (error instanceof Overtaken) return work()
        throw error
      }
    }
    if (!steps.prepare) return run(undefined)
    const seen = await steps.admit(database, false)
    // What was done before is not prepared again.
    return (await attempt.find(database)) ?? run(await steps.prepare(seen))
  }

  const kept = async <A, P>(
    attempt: KeyedWrite,
    telling: Telling,
    steps: Steps<A, P>,
  ): Promise<StoredResponse> => {
    const end = attempt.begin()
    if (!end) {
      await steps.admit(database, false)
      throw inProgress()
    }
    try {
      const told = await named(attempt, telling, steps)
      if (told.replayed) publish('replayed')
      return told
    } finally {
      end()
    }
  }

  return <A, P>(telling: Telling, steps: Steps<A, P>): Promise<StoredResponse> =>
    telling.attempt ? kept(telling.attempt, telling, steps) : plain(telling, steps)
}
