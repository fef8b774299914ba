/** Access conditions compare columns of any plain type: lists, reads and writes follow the same rule. */
import { Type } from '@sinclair/typebox'
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { boolean, index, pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, integer, text } from '../../drizzle/columns.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, Integer, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { type Json, testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'

const notices = pgTable(
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
const readable = { admin: true, manager: [{ level: 5 }], member: [{ is_public: true }] } as const
const writable = { admin: true, member: [{ is_public: true }] } as const

const noticesResource = defineResource({
  name: 'notices',
  singular: 'Notice',
  plural: 'Notices',
  description: 'Notices',
  table: notices,
  schemas: {
    read: Type.Object({ id: Id(), ...fields, ...commonFields }, { title: 'Notice' }),
    create: Type.Object(fields, { title: 'NoticeCreate' }),
    change: Type.Object(fields, { title: 'NoticeChange' }),
  },
  filters: [],
  sorts: { created_at: notices.created_at },
  search: [],
  relations: {},
  access: {
    ...{ list: readable, read: readable, create: writable, update: writable },
    ...{ replace: { admin: true }, remove: { admin: true } },
  },
})

t.test('conditions on a boolean and on a number hold in lists, reads and writes', async (t) => {
  const database = await testDatabase(t)
  const migration = await generateMigration(generateDrizzleJson({}), generateDrizzleJson({ notices }))
  for (const statement of migration) await database.run(statement)
  const { admin, person } = await testApp(t, {}, { database, resources: [...resources, noticesResource] })
  const [{ client: manager }, { client: member }] = [await person('manager'), await person('member')]

  const ids: Record<string, string> = {}
  for (const notice of [
    { title: 'open', is_public: true },
    { title: 'urgent', level: 5 },
    { title: 'closed' },
  ]) {
    const created = await admin.post('/notices', notice)
    t.equal(created.status, 201)
    ids[notice.title] = created.body.data.id
  }
  const getTitles = ({ body }: { body: Json }) => body.data.map(({ title }: Json) => title)
  t.same(getTitles(await member.get('/notices')), ['open'])
  t.same(getTitles(await manager.get('/notices')), ['urgent'])
  t.same(getTitles(await admin.get('/notices')), ['closed', 'urgent', 'open'])
  t.equal((await member.get('/notices?page=1')).body.pagination.total, 1)

  for (const [reply, status] of [
    [member.get(`/notices/${ids.open}`), 200],
    [member.get(`/notices/${ids.closed}`), 403],
    [manager.get(`/notices/${ids.urgent}`), 200],
    [manager.get(`/notices/${ids.open}`), 403],
    [member.patch(`/notices/${ids.open}`, { title: 'opened' }), 200],
    [member.patch(`/notices/${ids.closed}`, { title: 'opened' }), 403],
    [member.post('/notices', { title: 'mine' }), 403],
    [member.post('/notices', { title: 'mine', is_public: true }), 201],
  ] as const)
    t.equal((await reply).status, status)
})
