/** Ids are different UUIDs of version 7, in the order in which they were created. */
import t from 'tap'
import { validate, version } from 'uuid'
import { newId } from '../../lib/ids.ts'

/** More than are created in one millisecond. */
const ID_COUNT = 20_000
/** The length of the hexadecimal milliseconds, with their dash. */
const TIME_LENGTH = 13

t.test('ids are different UUIDs of version 7, in ascending order', async (t) => {
  const ids = Array.from({ length: ID_COUNT }, () => newId())
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
