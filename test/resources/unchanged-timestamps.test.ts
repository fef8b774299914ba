/** A body as it was read changes nothing, also where a field that cannot be changed is a timestamp. */
import { getTableColumns } from 'drizzle-orm'
import t from 'tap'
import { orders } from '../../drizzle/tables.ts'
import { createIsSameIn } from '../../plugins/collection/sql/write.ts'

const isSame = createIsSameIn(getTableColumns(orders))
const stored = '2026-11-21 09:30:00.123456+00'

t.test('a timestamp as it was read is the same, another one differs', async (t) => {
  t.ok(isSame('created_at', '2026-11-21T09:30:00.123Z', stored))
  t.ok(isSame('created_at', '2026-11-21T10:30:00.123+01:00', stored))
  t.notOk(isSame('created_at', '2026-11-21T09:30:00.124Z', stored))
  t.notOk(isSame('note', '2026-11-21T09:30:00.123Z', stored), 'text is compared as text')
})

t.test('JSON is the same in any order of its members', async (t) => {
  t.ok(isSame('shipping_address', { city: 'a', country: 'b' }, { country: 'b', city: 'a' }))
  t.notOk(isSame('shipping_address', { city: 'a' }, { city: 'a', country: undefined }))
  t.notOk(isSame('items', [{ sku: 'a' }, { sku: 'b' }], [{ sku: 'b' }, { sku: 'a' }]))
})
