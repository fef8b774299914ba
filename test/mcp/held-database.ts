/** A database whose statements on products wait until they are released. */
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Queryable } from '../../drizzle/client/index.ts'
import { type Owner, testDatabase } from '../helpers/database.ts'

export async function createHeldDatabase(t: Owner) {
  const opened = await testDatabase(t)
  const waiting: (() => void)[] = []
  let isHeld = false
  const holding = (connection: Queryable): Queryable['run'] => {
    return async (text, ...others) => {
      if (isHeld && text.includes('"products"')) await new Promise<void>((resolve) => waiting.push(resolve))
      return connection.run(text, ...others)
    }
  }
  const database = createDatabase({
    ...opened.$client,
    run: holding(opened),
    transaction: (work, options) =>
      opened.$client.transaction((tx) => work({ run: holding(tx), savepoint: tx.savepoint }), options),
  })
  return {
    database,
    waiting,
    hold() {
      isHeld = true
    },
    release() {
      isHeld = false
      for (const resume of waiting.splice(0)) resume()
    },
  }
}
