/** The body of a transaction, the same for both engines. */
import type { Queryable } from './types.ts'

/**
 * Calls `work` with a connection that runs statements by `run` until `work` settles.
 * @throws the error of the first statement that failed, even if `work` caught it
 */
export async function runTransactionBody<T>(
  run: Queryable['run'],
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  let failure: { error: unknown } | undefined
  let isOver = false
  const tx: Queryable = {
    async run(text, params) {
      // A statement that came later would run in the transaction of another request, or in none.
      if (isOver) throw new Error('The transaction is over; no further statement can run in it')
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
    // PostgreSQL has aborted the transaction: COMMIT would roll back without an error.
    if (failure) throw failure.error
    return result
  } finally {
    isOver = true
  }
}
