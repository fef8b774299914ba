/** Books below a shelf: who may read or write one follows from its shelf. */
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
import { Book, BookCreate } from './schemas.ts'
import { shelves, books as table } from './tables.ts'

const staff = { admin: true, manager: true } as const
const relations = { shelf: { to: shelves, local: 'shelf_id', foreign: 'id', many: false } } as const

declare module '@resource-api/resources/known-relations' {
  interface KnownRelations {
    books: { table: typeof table; relations: typeof relations }
  }
}

const books = collection({
  table,
  description: 'Books of a shelf',
  parent: { to: 'shelves', member: 'shelf_id' },
  schemas: { read: Book, create: BookCreate, change: BookCreate },
  lists: { sorts: ['created_at'] },
  relations,
  access: {
    ...toReads({ ...staff, member: [{ 'shelf.is_public': true }, { 'shelf.user_id': CALLER }] }),
    ...toWrites({ ...staff, member: [{ 'shelf.user_id': CALLER }] }),
  },
})

export default defineResource(books, async (app, resource) => {
  app.get('/shelves/:shelf_id/books', list(resource))
  app.get('/shelves/:shelf_id/books/:id', read(resource))
  app.post('/shelves/:shelf_id/books', create(resource))
  app.put('/shelves/:shelf_id/books/:id', replace(resource))
  app.patch('/shelves/:shelf_id/books/:id', update(resource))
  app.delete('/shelves/:shelf_id/books/:id', remove(resource))
})
