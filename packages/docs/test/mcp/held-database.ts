/** A database whose statements on products wait until they are released. */
import { type Owner, testDatabase } from '../../../testing/helpers/database.ts'
import { intercept } from '../../../testing/helpers/statements.ts'

export async function createHeldDatabase(t: Owner) {
  const opened = await testDatabase(t)
  const waiting: (() => void)[] = []
  let isHeld = false
  const database = intercept(opened, (text) =>
    isHeld && text.includes('"products"') ? new Promise<void>((resolve) => waiting.push(resolve)) : undefined,
  )
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
