/**
 * Quick statements share connections: for one that finds its row by a key, the packet costs both sides more than the
 * work. Reads that come in one turn of the event loop go together; writes do where no connection is free for each.
 */
import type { Gate } from './gate.ts'
import type { Session, Statement } from './session.ts'
import type { Param, Row } from './types.ts'

/** What one connection is given at once: so many a slow network or a lost connection may hold up. */
const MOST = 8

interface Asked extends Statement {
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

/** Gives each of a batch its own answer, or its own error. */
async function settle(batch: readonly Asked[], work: () => Promise<PromiseSettledResult<Row[]>[]>) {
  try {
    for (const [i, each] of (await work()).entries()) {
      if (each.status === 'fulfilled') batch[i]?.resolve(each.value)
      else batch[i]?.reject(each.reason)
    }
  } catch (error) {
    for (const { reject } of batch) reject(error)
  }
}

/** Reads of one turn of the event loop, a few on each connection: one packet instead of one each. */
export function createReads(gate: Gate<Session>) {
  let asked: Asked[] = []

  const send = (batch: readonly Asked[]) => settle(batch, () => gate.run((session) => session.readAll(batch)))

  const flush = () => {
    const all = asked
    asked = []
    for (let i = 0; i < all.length; i += MOST) void send(all.slice(i, i + MOST))
  }

  /** @throws as `Session.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      if (asked.length === 0) setImmediate(flush)
      asked.push({ text, params, resolve, reject })
    })
}

/**
 * Writes, each a transaction of its own. While there are free connections each has one; whoever gets the next one to be
 * free takes along a fair share of those that wait, so that all connections stay at work.
 */
export function createWrites(gate: Gate<Session>) {
  /** In the order in which they came. */
  const waiting = new Set<Asked>()

  const take = (): Asked[] => {
    const share = Math.min(MOST, Math.ceil(waiting.size / gate.load().size))
    const batch = [...waiting].slice(0, share)
    for (const each of batch) waiting.delete(each)
    return batch
  }

  /** @throws as `Session.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      const asked = { text, params, resolve, reject }
      waiting.add(asked)
      const work = async (session: Session) => {
        // It may have gone with one that came before.
        if (!waiting.has(asked)) return
        const batch = take()
        await settle(batch, () => session.writeAll(batch))
      }
      gate.run(work).catch((error) => {
        if (waiting.delete(asked)) reject(error)
      })
    })
}
