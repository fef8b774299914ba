/** Shelves: rows with an owner, which members see if they are public. */
import { CALLER, toReads, toWrites } from '@resource-api/http'
import {
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'
import { Shelf, ShelfCreate } from './schemas.ts'
import { shelves as table } from './tables.ts'

const staff = { admin: true, manager: true } as const

const shelves = collection({
  table,
  description: 'Shelves of books',
  schemas: { read: Shelf, create: ShelfCreate, change: ShelfCreate },
  lists: { sorts: ['created_at'] },
  access: {
    ...toReads({ ...staff, member: [{ is_public: true }, { user_id: CALLER }] }),
    ...toWrites({ ...staff, member: [{ user_id: CALLER }] }),
  },
  defaults: (actor) => ({ user_id: actor.userId }),
})

export default defineResource(shelves, async (app) => {
  app.get('/shelves', list(shelves))
  app.get('/shelves/:id', read(shelves))
  app.post('/shelves', create(shelves))
  app.put('/shelves/:id', replace(shelves))
  app.patch('/shelves/:id', update(shelves))
  app.delete('/shelves/:id', remove(shelves))
})
