/** A page by number and its total are of one moment, whatever is written while they are read. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Queryable } from '../../../database/src/client/index.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabase } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { overhear } from '../../../testing/helpers/statements.ts'

const opened = await testDatabase(t)
await createNotesTable(opened)
let table = 'none'
let addRow = async (): Promise<unknown> => undefined

/** Runs one statement after the other, and adds a row after each that reads the list. */
function adding(connection: Queryable): Queryable {
  let last: Promise<unknown> = Promise.resolve()
  return {
    run(text, params, options) {
      const result = last.then(async () => {
        const rows = await connection.run(text, params, options)
        if (text.includes(`from "${table}"`)) await addRow()
        return rows
      })
      last = result.catch(() => undefined)
      return result
    },
  }
}
const changing = createDatabase({
  ...opened.$client,
  ...adding(opened.$client),
  transaction: (work, options) => opened.$client.transaction((tx) => work({ ...tx, ...adding(tx) }), options),
})
const { database, take } = overhear(changing)
const { admin, adminId, app, person } = await testApp(t, {}, { database, resources: resourcesWithNotes })
await stopEventWork(app)

t.test('a page and its total are read by one statement', async (t) => {
  const { id, client } = await person('member')
  await insertRows(opened, 'orders', [{ user_id: id }, { user_id: id }])
  addRow = () => insertRows(opened, 'orders', [{ user_id: id }])
  const cases: [path: string, rows: number, total: number][] = [
    ['/orders?page=1', 2, 2],
    ['/orders?page=1&limit=1', 1, 3],
    ['/orders?page=9', 0, 4],
    ['/orders?page=1&status=paid', 0, 0],
    ['/orders?page=1&status=paid,pending', 6, 6],
    ['/orders?page=1&search=ord', 7, 7],
  ]
  await client.get('/orders')
  table = 'orders'
  for (const [path, rows, total] of cases) {
    take()
    const { data, pagination } = (await client.get(path)).body
    t.same({ rows: data.length, total: pagination.total }, { rows, total }, path)
    t.equal(take().statements.filter((text) => text.includes('from "orders"')).length, 1, path)
  }
  table = 'none'
})

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

t.test('the chunks of a page of large rows are read in one snapshot', { skip }, async (t) => {
  const note = { user_id: adminId, body: 'x'.repeat(100_000), status: 'published' }
  await insertRows(opened, 'notes', Array(30).fill(note))
  addRow = () => insertRows(opened, 'notes', [{ ...note, created_at: '2020-01-01' }])
  table = 'notes'
  const reply = await admin.get('/users/me/notes?page=1&limit=100&fields=id,body')
  table = 'none'
  t.equal(reply.body.pagination.total, 30)
  t.equal(reply.body.data.length, 30)
  const [after] = await opened.run('select count(*) as rows from notes')
  t.ok(Number(after?.rows) > 31, 'several rows were added in between')
  const ids = reply.body.data.map(({ id }: Json) => id)
  t.equal(new Set(ids).size, ids.length)
})
