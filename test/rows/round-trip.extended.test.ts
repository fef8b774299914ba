/** A collection makes the round trip export, edit and import with `on_conflict` through the client package. */
import t from 'tap'
import { createClient } from '../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { insertRows } from '../helpers/rows.ts'

/** With the new row, as many as the embedded database accepts. */
const COUNT = 9_999

t.test('10,000 rows are exported, edited and imported while they are read', async (t) => {
  const { base: baseUrl, database } = await testApp(t)
  await insertRows(
    database,
    'users',
    Array.from({ length: COUNT }, (_, i) => ({ name: `User ${i}` })),
  )
  const { users } = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const query = { role: 'member' as const }
  const edit = (name: string) => (name.endsWith('0') ? name : `${name}, edited`)
  const expected = new Map<string, string>()
  async function* readEdited() {
    for await (const user of users.export(query)) {
      const name = edit(user.name)
      expected.set(user.id, name)
      yield { ...user, name }
    }
    yield { name: 'New', email: 'new.round.trip@example.com', role: 'member' as const }
  }
  t.same(await users.import(readEdited(), { onConflict: 'email' }), {
    created: 1,
    updated: 8_999,
    unchanged: 1_000,
  })
  const found = new Map<string, string>()
  for await (const { id, name } of users.export(query)) if (name !== 'New') found.set(id, name)
  t.equal(found.size, COUNT)
  t.same(found, expected)
})
