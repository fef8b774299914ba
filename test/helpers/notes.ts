/** Notes of users: a resource of tests, below a parent, with an owner, a state and a text of 100,000 characters. */
import { Type } from '@sinclair/typebox'
import { index, pgTable, uuid } from 'drizzle-orm/pg-core'
import type { Database } from '../../drizzle/client/index.ts'
import { common, folded, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/tables.ts'
import { CALLER } from '../../plugins/access/index.ts'
import { defineResource, type ResourceDefinition } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, OneOf, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'

export const notes = pgTable(
  'notes',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    title: text().notNull(),
    body: text().notNull(),
    status: text().$type<'draft' | 'published'>().notNull().default('draft'),
    search: folded(),
  },
  (t) => [
    index('notes_created_at').on(t.user_id, t.created_at, t.id),
    index('notes_title').on(t.user_id, t.title, t.id),
    index('notes_status').on(t.user_id, t.status, t.created_at, t.id),
  ],
)

/** Creates the table. Call it before the first request. */
export const createNotesTable = (database: Database) =>
  database.run(
    `create table notes (id uuid primary key, created_at timestamptz(6) not null default now(),
       updated_at timestamptz(6) not null default now(), revision bigint not null default 1,
       user_id uuid not null, title text collate "C" not null, body text collate "C" not null,
       status text collate "C" not null default 'draft', search text collate "C" not null default '',
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
  status: OneOf(['draft', 'published'], { title: 'NoteStatus', default: 'draft', description: 'The state' }),
}

export const Note = Type.Object({ id: Id(), user_id: Id(), ...fields, ...commonFields }, { title: 'Note' })
export const NoteCreate = Type.Object(fields, { title: 'NoteCreate' })
export const NoteChange = Type.Object(fields, { title: 'NoteChange' })

const own = [{ user_id: CALLER }] as const
const writable = { admin: true, manager: true, member: own } as const
const readable = { admin: true, manager: true, member: [{ status: 'published' }, ...own] } as const

export const notesResource: ResourceDefinition = defineResource({
  name: 'notes',
  singular: 'Note',
  plural: 'Notes',
  description: 'Short texts of a user',
  table: notes,
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Note, create: NoteCreate, change: NoteChange },
  filters: ['status'],
  sorts: { title: notes.title, created_at: notes.created_at },
  search: ['title', 'body'],
  relations: { user: { to: users, local: 'user_id', foreign: 'id', many: false } },
  access: {
    list: readable,
    read: readable,
    create: writable,
    replace: writable,
    update: writable,
    remove: writable,
  },
  transitions: { status: { draft: ['published'], published: ['draft'] } },
})

/** The resources of the app and notes, which users can include. */
export const resourcesWithNotes: ResourceDefinition[] = [
  ...resources.map((resource): ResourceDefinition => {
    if (resource.name !== 'users') return resource
    const relation = { to: notes, local: 'id', foreign: 'user_id', many: true }
    return { ...resource, relations: { ...resource.relations, notes: relation } }
  }),
  notesResource,
]
