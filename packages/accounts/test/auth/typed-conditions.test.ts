/** Access conditions compare columns of any plain type: lists, reads and writes follow the same rule. */
import { Type } from '@sinclair/typebox'
import { boolean, index, pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { Integer, Text } from '../../../api/src/schemas/types.ts'
import { common, integer, text } from '../../../database/src/columns.ts'
import { define } from '../../../resources/test/collection/adopted.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { createTable } from '../../../testing/helpers/rows.ts'

const table = pgTable(
  'notices',
  {
    ...common(),
    title: text().notNull(),
    is_public: boolean().notNull().default(false),
    level: integer().notNull().default(0),
  },
  (t) => [
    index('notices_created_at').on(t.created_at, t.id),
    index('notices_is_public').on(t.is_public, t.created_at, t.id),
    index('notices_level').on(t.level, t.created_at, t.id),
  ],
)
const fields = {
  title: Text({ minLength: 1, description: 'The heading', examples: ['Closed'] }),
  is_public: Type.Boolean({ default: false, description: 'Whether members read it', examples: [true] }),
  level: Integer(0, 9, { default: 0, description: 'The urgency', examples: [1] }),
}
const read = { admin: true, manager: [{ level: 5 }], member: [{ is_public: true }] } as const
const write = { admin: true, member: [{ is_public: true }] } as const
const notices = define(
  { name: 'notices', singular: 'Notice', table, fields },
  { sorts: { created_at: table.created_at }, access: { list: read, read, create: write, update: write } },
)

t.test('conditions on a boolean and on a number hold in lists, reads and writes', async (t) => {
  const database = await testDatabase(t)
  await createTable(database, table)
  const { admin, person } = await testApp(t, {}, { database, resources: [...resources, notices] })
  const [{ client: manager }, { client: member }] = [await person('manager'), await person('member')]
  const create = async (notice: Json) => (await admin.post('/notices', notice)).body.data.id
  const open = await create({ title: 'open', is_public: true })
  const urgent = await create({ title: 'urgent', level: 5 })
  const closed = await create({ title: 'closed' })
  for (const [client, titles] of [
    [member, ['open']],
    [manager, ['urgent']],
    [admin, ['closed', 'urgent', 'open']],
  ] as const) {
    const { data, pagination } = (await client.get('/notices?page=1')).body
    t.same([data.map(({ title }: Json) => title), pagination.total], [titles, titles.length])
  }
  for (const [reply, status] of [
    [member.get(`/notices/${open}`), 200],
    [member.get(`/notices/${closed}`), 403],
    [manager.get(`/notices/${urgent}`), 200],
    [manager.get(`/notices/${open}`), 403],
    [member.patch(`/notices/${open}`, { title: 'opened' }), 200],
    [member.patch(`/notices/${closed}`, { title: 'opened' }), 403],
    [member.post('/notices', { title: 'mine' }), 403],
    [member.post('/notices', { title: 'mine', is_public: true }), 201],
  ] as const)
    t.equal((await reply).status, status)
})
