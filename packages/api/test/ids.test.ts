/** Ids are different UUIDs of version 7, in the order in which they were created; other UUIDs name rows as well. */
import t from 'tap'
import { validate, version } from 'uuid'
import { newId } from '../../database/src/lib/ids.ts'
import { testApp } from '../../testing/helpers/app.ts'
import { getIds } from '../../testing/helpers/replies.ts'
import { insertRows } from '../../testing/helpers/rows.ts'

/** More than one millisecond has. */
const ID_COUNT = 20_000
/** The length of the hexadecimal milliseconds, with their dash. */
const TIME_LENGTH = 13

t.test('ids are different UUIDs of version 7, in ascending order', async (t) => {
  const { now } = Date
  const time = now()
  // Not `t.intercept`, which records a stack for each call.
  Date.now = () => time
  const ids = Array.from({ length: ID_COUNT }, () => newId())
  Date.now = now
  t.equal(new Set(ids).size, ID_COUNT)
  t.same(ids.toSorted(), ids)
  t.ok(ids.every((id) => validate(id) && version(id) === 7))
})

t.test('ids sort by the millisecond in which they were created', async (t) => {
  const before = newId()
  const began = Date.now()
  while (Date.now() === began);
  t.ok(before.slice(0, TIME_LENGTH) < newId().slice(0, TIME_LENGTH))
})

const OTHER_UUIDS = [
  '11111111-1111-1111-1111-111111111111',
  '00000000-0000-0000-0000-000000000001',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
  'abcdefab-cdef-9bcd-0abc-abcdefabcdef',
]

t.test('a row with a UUID of any version is read, changed, filtered by and deleted', async (t) => {
  const { admin, database } = await testApp(t)
  for (const id of OTHER_UUIDS) {
    await insertRows(database, 'users', [{ id }])
    await insertRows(database, 'posts', [{ id, user_id: id }])
    await insertRows(database, 'orders', [{ id, user_id: id }])
    t.same(getIds(await admin.get(`/orders?user_id=${id.toUpperCase()}`)), [id], id)
    for (const form of [`{${id}}`, id.replaceAll('-', ''), `urn:uuid:${id}`, id.slice(1)])
      t.equal((await admin.get(`/users/${encodeURIComponent(form)}`)).status, 404, form)
    for (const path of [`/orders/${id}`, `/users/${id}/posts/${id}`, `/users/${id}`]) {
      const written = path.replaceAll(id, id.toUpperCase())
      t.equal((await admin.get(written)).body.data.id, id, written)
      t.equal((await admin.patch(path, {})).status, 200, path)
      t.equal((await admin.delete(written)).status, 204, path)
    }
  }
})
