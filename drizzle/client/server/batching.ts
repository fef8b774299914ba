/**
 * Quick statements share connections: for one that finds its row by a key, the packet costs both sides more than the
 * work. Those that come in one turn of the event loop go together, as do writes that wait for a connection.
 */
import type { Gate } from '../../../lib/semaphore.ts'
import type { Param, Row } from '../types.ts'
import { texts } from '../values.ts'
import type { Session } from './connection.ts'
import type { Asked } from './pipeline.ts'

/** What one connection is given at once: so many a slow network or a lost connection may hold up. */
const MOST = 8
/** Where each waits for a disk, and each could have a connection: no more than tells how long they wait. */
const FEW = 2
/** Milliseconds of a write in which it has not waited for a disk. */
const QUICK = 1
/** What the last batch counts for beside all before it. */
const WEIGHT = 0.1

type Work = (session: Session) => Promise<void>

/** A write that is in line, or was. */
interface Waiting extends Asked {
  waits: boolean
}

/** Does some work with a session of its own; what fails is told to those of the batch who were told nothing yet. */
function lend(gate: Gate<Session>, work: Work, fail: (error: unknown) => void): void {
  gate.take((session) => {
    work(session)
      .catch(fail)
      .finally(() => gate.give(session))
  }, fail)
}

/** Reads of one turn of the event loop, a few on each connection: one packet instead of one each. */
export function createReads(gate: Gate<Session>) {
  let asked: Asked[] = []

  const send = (batch: readonly Asked[]) => {
    const fail = (error: unknown) => {
      for (const { reject } of batch) reject(error)
    }
    lend(gate, (session) => session.readAll(batch), fail)
  }

  const flush = () => {
    const all = asked
    asked = []
    for (let i = 0; i < all.length; i += MOST) send(all.slice(i, i + MOST))
  }

  /** @throws as `Session.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      const values = texts(params)
      if (asked.length === 0) setImmediate(flush)
      asked.push({ text, values, resolve, reject })
    })
}

/**
 * Writes, each a transaction of its own: those of one turn of the event loop a few on each connection, unless they wait
 * for a disk, as side by side they wait for it together. Where no connection is free, whoever gets the next one takes
 * along a fair share of those that wait, so that all connections stay at work.
 */
export function createWrites(gate: Gate<Session>) {
  /** Milliseconds that a write has taken of late behind another. */
  let pace = QUICK
  /** In the order in which they came. Not a Set, whose old tables would keep what has long been answered. */
  let waiting: Waiting[] = []
  /** Of this turn. */
  let come: Waiting[] = []

  const take = (): Asked[] => {
    const together = pace < QUICK ? MOST : FEW
    const share = Math.min(MOST, Math.max(together, Math.ceil(waiting.length / gate.load().size)))
    const batch = waiting.slice(0, share)
    waiting = waiting.slice(share)
    for (const each of batch) each.waits = false
    return batch
  }

  /** In line for one; others that wait go with it. */
  const stand = (asked: Waiting) => {
    let batch: Asked[] = []
    const work = async (session: Session) => {
      // It may have gone with one that came before.
      if (!asked.waits) return
      batch = take()
      const took = await session.writeAll(batch)
      if (batch.length > 1) pace += WEIGHT * (took / (batch.length - 1) - pace)
    }
    const fail = (error: unknown) => {
      if (asked.waits) {
        asked.waits = false
        waiting = waiting.filter((each) => each !== asked)
        asked.reject(error)
      }
      for (const { reject } of batch) reject(error)
    }
    lend(gate, work, fail)
  }

  const flush = () => {
    const all = come
    come = []
    for (const asked of all) if (asked.waits) stand(asked)
  }

  /** @throws as `Session.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      const asked = { text, values: texts(params), resolve, reject, waits: true }
      if (come.length === 0) setImmediate(flush)
      come.push(asked)
      waiting.push(asked)
    })
}
