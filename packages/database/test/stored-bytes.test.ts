/** A small change makes the database log few bytes. */
import t from 'tap'
import type { Json } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { insertRows } from '../../testing/helpers/rows.ts'

const LENGTH = 100_000
const database = await createSharedDatabase(t)

const randomText = () =>
  Array.from({ length: LENGTH }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

t.test('a change of a long post writes little more WAL than the change', async (t) => {
  const [user] = await insertRows(database, 'users', [{}])
  const [id] = await insertRows(database, 'posts', [{ user_id: user, title: 'a', body: randomText() }])
  /** Bytes of write-ahead log of an update; other tests on the same server do not count. */
  const countLogged = async (change: string) => {
    const explained = await database.run(
      `explain (analyze, wal, format json) update posts set ${change}, updated_at = clock_timestamp() where id = '${id}'`,
    )
    const plan: Json = Object.values(explained[0] ?? {})[0]
    return (typeof plan === 'string' ? JSON.parse(plan) : plan)[0].Plan['WAL Bytes']
  }
  for (const [change, limit] of [
    // The search text has the whole body.
    [`title = title || 'b', search = search || 'b'`, 5 * LENGTH],
    [`status = 'published'`, LENGTH],
  ] as const) {
    // After a checkpoint, the first change of each page is logged with the whole page, so that it is not counted.
    await countLogged(change)
    const bytes = await countLogged(change)
    t.ok(bytes < limit, `${change}: ${bytes} bytes`)
  }
})
