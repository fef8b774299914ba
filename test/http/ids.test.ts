/** Ids are unique UUIDs of version 7 that sort by the millisecond in which they were created. */
import t from 'tap'
import { validate, version } from 'uuid'
import { newId } from '../../lib/ids.ts'

/** More than the size of the pool of random bytes. */
const MANY = 1_000
/** Hexadecimal digits of the millisecond, with the dash among them. */
const MOMENT = 13

t.test('each id is unique and a UUID of version 7', async (t) => {
  const ids = Array.from({ length: MANY }, newId)
  t.equal(new Set(ids).size, MANY)
  t.ok(ids.every((id) => validate(id) && version(id) === 7))
})

t.test('ids sort by the millisecond of their creation', async (t) => {
  const before = newId()
  const began = Date.now()
  while (Date.now() === began);
  t.ok(before.slice(0, MOMENT) < newId().slice(0, MOMENT))
})
