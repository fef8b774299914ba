/** A few sessions on one server, behind a gate that lends them one at a time. */

import { Gate, type GateOptions } from '../../../lib/semaphore.ts'
import type { Connection, Database } from '../types.ts'
import { createReads, createWrites } from './batching.ts'
import { isRead, Session, type SessionOptions } from './connection.ts'

export interface PoolOptions {
  /** Connections at most. */
  size: number
  session: SessionOptions
  gate: GateOptions
}

export function createPool({ size, session, gate: limits }: PoolOptions) {
  const sessions = Array.from({ length: size }, () => new Session(session))
  const gate = new Gate(sessions, limits)
  const readQuickly = createReads(gate)
  const writeQuickly = createWrites(gate)

  const run: Connection['run'] = (text, params, options = {}) => {
    if (options.quick) return isRead(text) ? readQuickly(text, params) : writeQuickly(text, params)
    return gate.run((session) => session.run(text, params, options))
  }
  const transaction: Database['transaction'] = (work, limit) =>
    gate.run((session) => session.transaction(work, limit))

  return {
    run,
    transaction,
    load: () => gate.load(),
    delay: () => gate.delay,
    /** To be called several times a second: ends connections whose server is silent beyond all limits. */
    check() {
      for (const session of sessions) session.check()
    },
    /** Ends all connections without a word: what waits for an answer fails now. */
    abandon() {
      for (const session of sessions) session.abandon()
    },
    async close() {
      await gate.close()
      await Promise.all(sessions.map((session) => session.close()))
    },
  }
}
