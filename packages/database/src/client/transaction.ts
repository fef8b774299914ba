/** The body of a transaction, the same for both engines. */
import { StaleReadError, TransactionTimeout, TransactionYielded } from './errors.ts'
import type { Queryable, TransactionClient, TransactionOptions } from './types.ts'

/** With `isYielding`: of 2 s, 1 s remains for the statement that runs, and for the rollback. */
const MAX_WAITED_SHARE = 0.5

/** A hook that was added, with its value. */
interface AddedHook {
  name: string
  value: unknown
  run(): Promise<boolean>
}

/**
 * Calls `work` with a connection that runs statements by `run` until `work` settles, and then the hooks.
 * @param getWaitedShare returns the share of the time that a caller may wait for the connection, which it has waited
 * @throws the error of the first statement that failed and that no savepoint has undone, even if `work` caught it;
 *   TransactionTimeout for a statement that would begin after `maxMs`; TransactionYielded with `isYielding`; StaleReadError
 *   of a hook
 */
export async function runTransactionBody<T>(
  run: Queryable['run'],
  work: (tx: TransactionClient) => Promise<T>,
  { maxMs = Number.POSITIVE_INFINITY, isYielding = false, maxLockedMs }: TransactionOptions = {},
  getWaitedShare = () => 0,
): Promise<T> {
  let limit = {
    endsAt: performance.now() + maxMs,
    createError: (): Error => new TransactionTimeout(`A transaction took longer than ${maxMs} ms`),
  }
  let failure: { error: unknown } | undefined
  let isOver = false
  let hooks = new Map<object, AddedHook>()
  /** PostgreSQL has aborted the transaction: COMMIT would roll back without an error. */
  const throwFailure = () => {
    if (failure) throw failure.error
  }
  const tx: TransactionClient = {
    async run(text, params) {
      // A statement that came later would run in the transaction of another request, or in none.
      if (isOver) throw new Error('The transaction is over; no further statement can run in it')
      try {
        if (performance.now() >= limit.endsAt) throw limit.createError()
        if (isYielding && getWaitedShare() > MAX_WAITED_SHARE)
          throw new TransactionYielded('A transaction kept another caller waiting for too long')
        return await run(text, params)
      } catch (error) {
        failure ??= { error }
        throw error
      }
    },
    async savepoint(attempt) {
      const hooksBefore = new Map(hooks)
      await tx.run('savepoint attempt')
      try {
        const result = await attempt()
        throwFailure()
        await tx.run('release savepoint attempt')
        return result
      } catch (error) {
        // With a lost connection it fails, and so does the transaction.
        await tx.run('rollback to savepoint attempt')
        failure = undefined
        hooks = hooksBefore
        throw error
      }
    },
    beforeCommit(key, { name, run: runHook }, update) {
      // The value of a key is what an `update` for it has returned.
      const value = update(hooks.get(key)?.value as Parameters<typeof update>[0])
      hooks.set(key, { name, value, run: () => runHook(value) })
    },
    async runHooks() {
      while (hooks.size > 0) {
        const added = [...hooks.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
        hooks = new Map()
        for (const hook of added) if (!(await hook.run())) throw new StaleReadError()
      }
    },
    limitLocks(createError) {
      if (maxLockedMs === undefined) return
      const endsAt = performance.now() + maxLockedMs
      if (endsAt < limit.endsAt) limit = { endsAt, createError }
    },
  }
  try {
    const result = await work(tx)
    throwFailure()
    await tx.runHooks()
    throwFailure()
    return result
  } finally {
    isOver = true
  }
}
