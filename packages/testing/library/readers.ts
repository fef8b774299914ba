/** Readers: a view, whose key has another name than `id`. */
import { CALLER, toReads } from '@resource-api/http'
import { collection, defineResource, list, read } from '@resource-api/resources'
import { Reader } from './schemas.ts'
import { readers as view } from './tables.ts'

const readers = collection({
  view,
  description: 'How much users read',
  schemas: { read: Reader },
  lists: { ranges: ['loans'], unindexed: ['loans'], sorts: ['loans', 'created_at'] },
  fields: { loans: { read: ['admin', 'manager'] } },
  access: toReads({ admin: true, manager: true, member: [{ user_id: CALLER }] }),
})

export default defineResource(readers, async (app) => {
  app.get('/readers', list(readers))
  app.get('/readers/:id', read(readers))
})
