/** A resource of the tests below users, with a large text, a nullable sort, and rows that not every member may read. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { index, pgTable, uuid } from 'drizzle-orm/pg-core'
import type { Database } from '../../drizzle/client/index.ts'
import { common, folded, moment, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { CALLER } from '../../plugins/access/rules.ts'
import { defineResource, type ResourceDefinition } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, Nullable, OneOf, Text, Timestamp } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { type Owner, testDatabase } from './database.ts'

export const NOTE_STATES = ['draft', 'published', 'archived'] as const

export const notes = pgTable(
  'notes',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    title: text().notNull(),
    body: text().notNull(),
    status: text().$type<(typeof NOTE_STATES)[number]>().notNull().default('draft'),
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

/** Creates the table. Call it before the first request. */
export const createNotesTable = (database: Database) =>
  database.run(
    `create table notes (id uuid primary key, created_at timestamptz(6) not null default now(),
       updated_at timestamptz(6) not null default now(), revision bigint not null default 1,
       user_id uuid not null, title text collate "C" not null, body text collate "C" not null,
       status text collate "C" not null default 'draft', published_at timestamptz(6),
       search text collate "C" not null default '',
       constraint notes_user_id_users_id_fk foreign key (user_id) references users (id) on delete cascade)`,
  )

const fields = {
  title: Text({ minLength: 1, maxLength: 200, description: 'The title', examples: ['Tea'] }),
  body: Text({
    minLength: 1,
    maxLength: 100_000,
    'x-trim': false,
    'x-multiline': true,
    description: 'The text',
    examples: ['It is warm.'],
  }),
  status: OneOf(NOTE_STATES, { title: 'NoteStatus', default: 'draft', description: 'The state' }),
}

export const Note = Type.Object(
  {
    id: Id(),
    user_id: Id(),
    ...fields,
    published_at: Nullable(Timestamp('The time of publication')),
    ...commonFields,
  },
  { title: 'Note' },
)
export const NoteCreate = Type.Object(fields, { title: 'NoteCreate' })
export const NoteChange = Type.Object(fields, { title: 'NoteChange' })

const own = [{ user_id: CALLER }] as const
const readable = [{ status: 'published' }, { user_id: CALLER }] as const
const written = { admin: true, manager: true, member: own } as const

export const notesResource: ResourceDefinition = defineResource({
  name: 'notes',
  singular: 'Note',
  plural: 'Notes',
  description: 'Texts of a user',
  table: notes,
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Note, create: NoteCreate, change: NoteChange },
  filters: ['status'],
  sorts: {
    title: notes.title,
    published_at: {
      column: notes.published_at,
      ascending: sql`coalesce(${notes.published_at}, 'infinity'::timestamptz)`,
      descending: sql`coalesce(${notes.published_at}, '-infinity'::timestamptz)`,
      nulls: { ascending: 'infinity', descending: '-infinity' },
    },
    created_at: notes.created_at,
    updated_at: notes.updated_at,
  },
  search: ['title', 'body'],
  relations: { user: { to: users, local: 'user_id', foreign: 'id', many: false } },
  access: {
    list: { admin: true, manager: true, member: readable },
    read: { admin: true, manager: true, member: readable },
    create: written,
    replace: written,
    update: written,
    remove: written,
  },
  transitions: {
    status: {
      draft: ['published', 'archived'],
      published: ['draft', 'archived'],
      archived: ['draft', 'published'],
    },
  },
})

/** The registered definitions and notes. Users include their notes. */
export const resourcesWithNotes: ResourceDefinition[] = [
  ...resources.map((definition) =>
    definition.name === 'users'
      ? {
          ...definition,
          relations: {
            ...definition.relations,
            notes: { to: notes, local: 'id', foreign: 'user_id', many: true },
          },
        }
      : definition,
  ),
  notesResource,
]

/** Returns what an app that serves notes replaces: its definitions, and a database with their table. */
export async function createNotes(t: Owner) {
  const database = await testDatabase(t)
  await createNotesTable(database)
  return { database, resources: resourcesWithNotes }
}
