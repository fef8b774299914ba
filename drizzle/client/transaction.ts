/** The rules of a transaction that hold with both engines: one failure dooms it, and its end is its end. */
import type { Connection } from './types.ts'

/** Hands `work` a connection over `run` that lasts as long as `work` does. */
export async function within<T>(run: Connection['run'], work: (tx: Connection) => Promise<T>): Promise<T> {
  let failure: { error: unknown } | undefined
  let over = false
  const tx: Connection = {
    async run(text, params) {
      // Late, it would run outside: in somebody else's transaction, or in none.
      if (over) throw new Error('This transaction is over')
      try {
        return await run(text, params)
      } catch (error) {
        failure ??= { error }
        throw error
      }
    },
  }
  try {
    const result = await work(tx)
    // PostgreSQL has given the transaction up by now, and COMMIT would quietly roll back.
    if (failure) throw failure.error
    return result
  } finally {
    over = true
  }
}
