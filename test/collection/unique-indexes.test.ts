/** A violation of a unique index is a 409 that names all fields of the index, and no other column. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { sql } from 'drizzle-orm'
import { foreignKey, index, pgTable, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { findConstrainedColumns } from '../../plugins/collection/sql/constraint-errors.ts'
import { Id, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { type Json, testApp } from '../helpers/app.ts'
import { runMigration, testDatabase } from '../helpers/database.ts'
import { define } from './adopted.ts'

const pages = pgTable(
  'pages',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id),
    slug: text().notNull(),
    language: text().notNull(),
    title: text().notNull(),
    short_name: text().notNull().unique(),
    secret: text().notNull().default('secret'),
  },
  (t) => [
    index('pages_created_at').on(t.user_id, t.created_at, t.id),
    uniqueIndex('pages_address').on(t.user_id, t.language, t.slug),
    uniqueIndex('pages_title').on(t.user_id, sql`lower(${t.title})`),
    uniqueIndex('pages_secret').on(t.secret).where(sql`${t.title} like 'Secret%'`),
    unique('pages_names').on(t.short_name, t.language),
  ],
)

const FieldText = (example: string) => Text({ minLength: 1, examples: [example] })
const fields = {
  slug: FieldText('tea'),
  language: FieldText('en'),
  title: FieldText('Tea'),
  short_name: FieldText('Tea'),
}
const all = { admin: true } as const
const pagesResource = define(
  { name: 'pages', singular: 'Page', table: pages, fields, readOnly: { user_id: Id() } },
  {
    parent: { to: 'users', member: 'user_id' },
    sorts: { created_at: pages.created_at },
    access: { list: all, read: all, create: all, replace: all, update: all, remove: all },
  },
)

t.test('a conflict names the fields of the violated index', async (t) => {
  const database = await testDatabase(t)
  const migration = await generateMigration(
    generateDrizzleJson({ users }),
    generateDrizzleJson({ users, pages }),
  )
  await runMigration(t, database, migration)
  const { admin } = await testApp(t, {}, { database, resources: [...resources, pagesResource] })

  const page = { slug: 'tea', language: 'en', title: 'Tea', short_name: 'tea' }
  const first = await admin.post('/users/me/pages', page)
  t.equal(first.status, 201)

  const code = 'ALREADY_EXISTS'
  const conflict = async (changed: Partial<typeof page>) => {
    const { status, body } = await admin.post('/users/me/pages', { ...page, ...changed })
    t.match({ status, code: body.error?.code }, { status: 409, code: 'RESOURCE_CONFLICT' })
    return body.error
  }

  const byAddress = await conflict({ title: 'Other', short_name: 'other' })
  t.equal(byAddress.message, 'The combination of user_id, language, slug is taken')
  t.same(byAddress.details, [
    { field: 'user_id', message: 'is taken together with language, slug', code },
    { field: 'language', message: 'is taken together with user_id, slug', code },
    { field: 'slug', message: 'is taken together with user_id, language', code },
  ])
  const attributes = { ...page, title: 'Other', short_name: 'other' }
  const typed = await admin.post('/v2/users/me/pages', { data: { type: 'pages', attributes } })
  t.same(
    typed.body.error.errors.map(({ field }: Json) => field),
    ['user_id', 'language', 'slug'].map((name) => `data.attributes.${name}`),
  )

  const second = await admin.post('/users/me/pages', { ...page, slug: 'te', title: 'Te', short_name: 'te' })
  t.equal(second.status, 201)
  const moved = await admin.patch(`/users/me/pages/${second.body.data.id}`, { slug: 'tea' })
  t.same([moved.status, moved.body.error.details.length], [409, 3], 'a change conflicts, too')

  const single = await conflict({ slug: 'x', title: 'A', language: 'de' })
  t.equal(single.message, 'The short_name is taken')
  t.same(single.details, [{ field: 'short_name', message: 'is taken', code }])
  const byExpression = await conflict({ slug: 'x', title: 'TEA', short_name: 'b' })
  t.same(byExpression.details, [
    { field: 'user_id', message: 'is taken together with title', code },
    { field: 'title', message: 'is taken together with user_id', code },
  ])

  // A column that is no field is not named.
  const secret = { ...page, slug: 's', title: 'Secret 1', short_name: 's1' }
  t.equal((await admin.post('/users/me/pages', secret)).status, 201)
  const hidden = await conflict({ slug: 's2', title: 'Secret 2', short_name: 's2' })
  t.notMatch(JSON.stringify(hidden), 'secret')
  t.notOk(hidden.details?.length)
})

t.test('each column of a unique index or a foreign key may make a write wait', async (t) => {
  const shelves = pgTable(
    'shelves',
    { ...common(), room: text(), row: text(), owner_id: uuid(), code: text(), label: text() },
    (t) => [
      uniqueIndex('shelves_code').on(t.code),
      foreignKey({ columns: [t.room, t.row], foreignColumns: [pages.slug, pages.language] }),
      foreignKey({ columns: [t.owner_id], foreignColumns: [users.id] }),
    ],
  )
  t.same([...findConstrainedColumns({ table: shelves })].sort(), ['code', 'owner_id', 'room', 'row'])
  t.ok(findConstrainedColumns({ table: pages }).has('title'), 'each column of a partial unique index')
})
