/** A small change of a long post makes the database log few bytes. */
import t from 'tap'
import type { Json } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { insertRows } from '../helpers/rows.ts'

const LENGTH = 100_000
const database = await testDatabase(t)

const createRandomText = () =>
  Array.from({ length: LENGTH }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

t.test('a change of a long post writes little more WAL than the change', async (t) => {
  const [user] = await insertRows(database, 'users', [{}])
  const [id] = await insertRows(database, 'posts', [{ user_id: user, title: 'a', body: createRandomText() }])
  /** Bytes of write-ahead log of one update; other tests on the same server do not count. */
  const countLogged = async (change: string) => {
    const explained = await database.run(
      `explain (analyze, wal, format json) update posts set ${change}, updated_at = clock_timestamp() where id = '${id}'`,
    )
    const plan: Json = Object.values(explained[0] ?? {})[0]
    return (typeof plan === 'string' ? JSON.parse(plan) : plan)[0].Plan['WAL Bytes']
  }
  // After a checkpoint, the first change of each page is logged with the whole page: twice, so that it is not counted.
  const title = () => countLogged(`title = title || 'b', search = search || 'b'`)
  await title()
  const bytes = await title()
  t.ok(bytes < 5 * LENGTH, `title: ${bytes} bytes, of which the search text is ${LENGTH}`)
  const status = () => countLogged(`status = 'published'`)
  await status()
  const statusBytes = await status()
  t.ok(statusBytes < LENGTH, `status: ${statusBytes} bytes`)
})
