/** Shelves: rows with an owner, which members see if they are public. */
import { CALLER, toReads, toWrites } from '@resource-api/api/rules'
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

export default defineResource(shelves, async (app, resource) => {
  app.get('/shelves', list(resource))
  app.get('/shelves/:id', read(resource))
  app.post('/shelves', create(resource))
  app.put('/shelves/:id', replace(resource))
  app.patch('/shelves/:id', update(resource))
  app.delete('/shelves/:id', remove(resource))
})
