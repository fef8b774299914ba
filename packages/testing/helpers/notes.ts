/** Notes: posts under another name, whose states follow each other and whose times no action sets. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { index, pgTable } from 'drizzle-orm/pg-core'
import { resources } from '../../../src/resources.ts'
import { CALLER } from '../../api/src/rules/rules.ts'
import type { Database } from '../../database/src/client/index.ts'
import { common, folded, moment, text } from '../../database/src/columns.ts'
import { userId, users } from '../../database/src/user-tables.ts'
import { collection } from '../../resources/src/definition/definition.ts'
import type { ResourcePlugin } from '../../resources/src/routes/plugin.ts'
import { type Owner, testDatabase } from './database.ts'
import { createTable } from './rows.ts'
import { serve } from './serve.ts'
import { Post, PostCreate } from './shop.ts'

export const notes = pgTable(
  'notes',
  {
    ...common(),
    user_id: userId(),
    title: text().notNull(),
    body: text().notNull(),
    status: text().$type<'draft' | 'published' | 'archived'>().notNull().default('draft'),
    published_at: moment(),
    search: folded(),
  },
  (t) => [
    index('notes_created_at').on(t.user_id, t.created_at, t.id),
    index('notes_updated_at').on(t.user_id, t.updated_at, t.id),
    index('notes_title').on(t.user_id, t.title, t.id),
    index('notes_published_at_asc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, 'infinity'::timestamptz))`,
      t.id,
    ),
    index('notes_published_at_desc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, '-infinity'::timestamptz))`,
      t.id,
    ),
    index('notes_status').on(t.user_id, t.status, t.created_at, t.id),
  ],
)

const staff = { admin: true, manager: true } as const
const own = { ...staff, member: [{ user_id: CALLER }] } as const
const readable = { ...staff, member: [{ status: 'published' }, { user_id: CALLER }] } as const

/** Creates the table. Call it before the first request. */
export const createNotesTable = (database: Database) => createTable(database, notes)

export const Note = Type.Object(Post.properties, { title: 'Note' })
export const NoteCreate = Type.Object(PostCreate.properties, { title: 'NoteCreate' })
export const NoteChange = Type.Object(PostCreate.properties, { title: 'NoteChange' })

export const notesResource = collection({
  description: 'Texts of a user',
  table: notes,
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Note, create: NoteCreate, change: NoteChange },
  lists: {
    filters: ['status'],
    sorts: ['title', 'published_at', 'created_at', 'updated_at'],
    search: ['title', 'body'],
  },
  relations: { user: { to: users, local: 'user_id', foreign: 'id', many: false, inverse: 'notes' } },
  access: { list: readable, read: readable, create: own, replace: own, update: own, remove: own },
  transitions: {
    status: {
      draft: ['published', 'archived'],
      published: ['draft', 'archived'],
      archived: ['draft', 'published'],
    },
  },
})

/** The registered resources and notes. */
export const resourcesWithNotes: ResourcePlugin[] = [...resources, serve(notesResource)]

/** Returns what an app that serves notes replaces: its resources, and a database with their table. */
export async function createNotes(t: Owner) {
  const database = await testDatabase(t)
  await createNotesTable(database)
  return { database, resources: resourcesWithNotes }
}
