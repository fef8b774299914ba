/**
 * Quick reads that come in one turn of the event loop go together, a few on each connection: one packet instead of one
 * each. For a read by its key, the packet costs both sides more than the read.
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

export function createBatches(gate: Gate<Session>) {
  let asked: Asked[] = []

  const send = async (batch: readonly Asked[]) => {
    try {
      const all = await gate.run((session) => session.readAll(batch))
      for (const [i, each] of all.entries()) {
        if (each.status === 'fulfilled') batch[i]?.resolve(each.value)
        else batch[i]?.reject(each.reason)
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

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
