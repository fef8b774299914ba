/** The examples of a resource set the columns that only its code sets, in rows that are inserted without it. */
import { exampleId } from '@resource-api/http/schemas'
import t from 'tap'
import { buildLibrary } from '../library/index.ts'
import { createExampleRows, testApp } from '../src/index.ts'

t.test('a row has the values of columns that its examples give', async (t) => {
  const api = await testApp(t, buildLibrary)
  const loan = { create: () => ({ book_id: exampleId }), columns: () => ({ status: 'lent' }) }
  const rows = createExampleRows(api, new Map([['loans', loan]]))
  const readStatus = async (id: string) => (await api.admin.get(`/loans/${id}`)).body.data.status
  t.equal(await readStatus(await rows.insertRow('loans', api.adminId)), 'lent')
  const returned = await rows.insertRow('loans', api.adminId, { status: 'returned' })
  t.equal(await readStatus(returned), 'returned', 'a check decides on what it compares')
})
