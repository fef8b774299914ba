/** Readers: a view, whose key has another name than `id`, with a rule that follows a relation. */
import { CALLER, toReads } from '@resource-api/api/rules'
import { collection, defineResource, list, read } from '@resource-api/resources'
import { Reader } from './schemas.ts'
import { shelves, readers as view } from './tables.ts'

const relations = {
  shelves: { to: shelves, local: 'user_id', foreign: 'user_id', many: true },
} as const

declare module '@resource-api/resources/known-relations' {
  interface KnownRelations {
    readers: { table: typeof view; relations: typeof relations }
  }
}

const readers = collection({
  view,
  description: 'How much users read',
  schemas: { read: Reader },
  lists: { ranges: ['loans'], unindexed: ['loans'], sorts: ['loans', 'created_at'] },
  fields: { loans: { read: ['admin', 'manager'] } },
  relations,
  access: toReads({
    admin: true,
    manager: true,
    // The caller's own row, in two ways: a list by such a rule is read in two parts.
    member: [{ user_id: CALLER }, { 'shelves.user_id': CALLER }],
  }),
})

export default defineResource(readers, async (app, resource) => {
  app.get('/readers', list(resource))
  app.get('/readers/:id', read(resource))
})
