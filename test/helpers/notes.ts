/** Notes: the fixtures' posts under another name, whose states follow each other and whose times no action sets. */
import { Type } from '@sinclair/typebox'
import type { Database } from '../../packages/database/src/client/index.ts'
import { users } from '../../packages/database/src/user-tables.ts'
import { collection } from '../../packages/resources/src/collection/definition.ts'
import type { ResourcePlugin } from '../../packages/resources/src/collection/plugin.ts'
import { resources } from '../../src/resources.ts'
import { own, readable } from '../fixtures/resources/posts.ts'
import { Post, PostCreate } from '../fixtures/schemas/posts.ts'
import { serve } from '../fixtures/serve.ts'
import { createPostsTable } from '../fixtures/tables/posts.ts'
import { type Owner, testDatabase } from './database.ts'
import { createTable } from './rows.ts'

export const notes = createPostsTable('notes')

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
