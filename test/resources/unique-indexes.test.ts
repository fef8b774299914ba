/** A violation of a unique index is a 409 that names all fields of the index, and no other column. */
import { Type } from '@sinclair/typebox'
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { sql } from 'drizzle-orm'
import { foreignKey, index, pgTable, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/tables.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { findConstrainedColumns } from '../../plugins/collection/sql/constraint-errors.ts'
import { common as commonFields, Id, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { runMigration, testDatabase } from '../helpers/database.ts'

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

const fields = {
  slug: Text({ minLength: 1, description: 'In the address', examples: ['tea'] }),
  language: Text({ minLength: 2, description: 'A BCP 47 tag', examples: ['en'] }),
  title: Text({ minLength: 1, description: 'The heading', examples: ['Tea'] }),
  short_name: Text({ minLength: 1, description: 'In menus', examples: ['Tea'] }),
}

const staff = { admin: true } as const

const pagesResource = defineResource({
  name: 'pages',
  singular: 'Page',
  plural: 'Pages',
  description: 'Pages of a user',
  table: pages,
  parent: { to: 'users', member: 'user_id' },
  schemas: {
    read: Type.Object({ id: Id(), user_id: Id('The author'), ...fields, ...commonFields }, { title: 'Page' }),
    create: Type.Object(fields, { title: 'PageCreate' }),
    change: Type.Object(fields, { title: 'PageChange' }),
  },
  filters: [],
  sorts: { created_at: pages.created_at },
  search: [],
  relations: {},
  access: { list: staff, read: staff, create: staff, replace: staff, update: staff, remove: staff },
})

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

  t.test('in the order of the index, in a flat and in a typed body', async (t) => {
    const attributes = { ...page, title: 'Other', short_name: 'other' }
    const flat = await admin.post('/v1/users/me/pages', attributes)
    t.equal(flat.status, 409)
    t.match(flat.body.error, {
      code: 'RESOURCE_CONFLICT',
      message: 'The combination of user_id, language, slug is taken',
    })
    const code = 'ALREADY_EXISTS'
    t.same(flat.body.error.details, [
      { field: 'user_id', message: 'is taken together with language, slug', code },
      { field: 'language', message: 'is taken together with user_id, slug', code },
      { field: 'slug', message: 'is taken together with user_id, language', code },
    ])
    const typed = await admin.post('/v2/users/me/pages', { data: { type: 'pages', attributes } })
    t.equal(typed.status, 409)
    t.same(
      typed.body.error.errors.map(({ field }: { field: string }) => field),
      ['user_id', 'language', 'slug'].map((name) => `data.attributes.${name}`),
    )
  })

  t.test('a change conflicts as a creation does', async (t) => {
    const second = await admin.post('/users/me/pages', { ...page, slug: 'te', title: 'Te', short_name: 'te' })
    t.equal(second.status, 201)
    const moved = await admin.patch(`/users/me/pages/${second.body.data.id}`, { slug: 'tea' })
    t.equal(moved.status, 409)
    t.equal(moved.body.error.details.length, 3)
  })

  t.test('a single column, an index with an expression, and a column that is no field', async (t) => {
    const conflict = async (changed: Partial<typeof page>) => {
      const { status, body } = await admin.post('/users/me/pages', { ...page, slug: 'x', ...changed })
      t.equal(status, 409)
      return body.error
    }
    const code = 'ALREADY_EXISTS'
    const single = await conflict({ title: 'A', language: 'de' })
    t.equal(single.message, 'The short_name is taken')
    t.same(single.details, [{ field: 'short_name', message: 'is taken', code }])

    const byExpression = await conflict({ title: 'TEA', short_name: 'b' })
    t.same(byExpression.details, [
      { field: 'user_id', message: 'is taken together with title', code },
      { field: 'title', message: 'is taken together with user_id', code },
    ])

    const secret = { ...page, slug: 's', title: 'Secret 1', short_name: 's1' }
    t.equal((await admin.post('/users/me/pages', secret)).status, 201)
    const hidden = await conflict({ slug: 's2', title: 'Secret 2', short_name: 's2' })
    t.equal(hidden.code, 'RESOURCE_CONFLICT')
    t.notMatch(JSON.stringify(hidden), 'secret')
    t.notOk(hidden.details?.length)
  })
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
  t.same([...findConstrainedColumns(shelves)].sort(), ['code', 'owner_id', 'room', 'row'])
  t.ok(findConstrainedColumns(pages).has('title'), 'each column of a partial unique index')
})
