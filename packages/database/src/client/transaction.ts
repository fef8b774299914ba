/** The body of a transaction, the same for both engines. */
import { TransactionTimeout } from './errors.ts'
import type { Queryable, TransactionClient, TransactionOptions } from './types.ts'

/**
 * Calls `work` with a connection that runs statements by `run` until `work` settles.
 * @throws the error of the first statement that failed and that no savepoint has undone, even if `work` caught it;
 *   TransactionTimeout for a statement that would begin after `maxMs`
 */
export async function runTransactionBody<T>(
  run: Queryable['run'],
  work: (tx: TransactionClient) => Promise<T>,
  { maxMs = Number.POSITIVE_INFINITY }: Pick<TransactionOptions, 'maxMs'> = {},
): Promise<T> {
  const endsAt = performance.now() + maxMs
  let failure: { error: unknown } | undefined
  let isOver = false
  const tx: TransactionClient = {
    async run(text, params) {
      // A statement that came later would run in the transaction of another request, or in none.
      if (isOver) throw new Error('The transaction is over; no further statement can run in it')
      try {
        if (performance.now() >= endsAt)
          throw new TransactionTimeout(`A transaction took longer than ${maxMs} ms`)
        return await run(text, params)
      } catch (error) {
        failure ??= { error }
        throw error
      }
    },
    async savepoint(attempt) {
      await tx.run('savepoint attempt')
      try {
        const result = await attempt()
        if (failure) throw failure.error
        await tx.run('release savepoint attempt')
        return result
      } catch (error) {
        // With a lost connection it fails, and so does the transaction.
        await tx.run('rollback to savepoint attempt')
        failure = undefined
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
