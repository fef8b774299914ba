/** The examples of a resource prepare its rows, and set the columns that only its code sets. */
import { exampleId } from '@resource-api/api/schemas'
import t from 'tap'
import { buildLibrary } from '../library/index.ts'
import { createExampleRows, testApp } from '../src/index.ts'

t.test('what a valid body needs exists before it', async (t) => {
  const api = await testApp(t, buildLibrary)
  const prepared: unknown[] = []
  const before = async ({ body }: { body: unknown }) => prepared.push(body)
  const rows = createExampleRows(
    api,
    new Map([['loans', { create: () => ({ book_id: exampleId }), before }]]),
  )
  const body = await rows.buildCreation('loans', api.adminId)
  t.same(prepared, [body])
})

t.test('a row has the values of columns that its examples give', async (t) => {
  const api = await testApp(t, buildLibrary)
  const loan = { create: () => ({ book_id: exampleId }), columns: () => ({ status: 'lent' }) }
  const rows = createExampleRows(api, new Map([['loans', loan]]))
  const readStatus = async (id: string) => (await api.admin.get(`/loans/${id}`)).body.data.status
  t.equal(await readStatus(await rows.insertRow('loans', api.adminId)), 'lent')
  const returned = await rows.insertRow('loans', api.adminId, { status: 'returned' })
  t.equal(await readStatus(returned), 'returned', 'a check decides on what it compares')
})
