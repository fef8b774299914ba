/** Reviews: only who has returned a book may write one. */
import { apiError } from '@resource-api/api/errors'
import { CALLER, toReads } from '@resource-api/api/rules'
import { prepare } from '@resource-api/database'
import {
  type CreateOf,
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  update,
} from '@resource-api/resources'
import { and, eq, sql } from 'drizzle-orm'
import { Review, ReviewChange, ReviewCreate } from './schemas.ts'
import { loans, reviews as table } from './tables.ts'

const everyone = { admin: true, manager: true, member: true } as const
const own = { admin: true, manager: true, member: [{ user_id: CALLER }] } as const

const reviews = collection({
  table,
  description: 'What readers think of books',
  schemas: { read: Review, create: ReviewCreate, change: ReviewChange },
  lists: { filters: ['book_id'], sorts: ['created_at'] },
  access: { ...toReads(everyone), create: own, update: own, remove: own },
  defaults: (actor) => ({ user_id: actor.userId }),
})

const findReturned = prepare((db) =>
  db
    .select({ id: loans.id })
    .from(loans)
    .where(
      and(
        eq(loans.user_id, sql.placeholder('user_id')),
        eq(loans.book_id, sql.placeholder('book_id')),
        eq(loans.status, 'returned'),
      ),
    )
    .limit(1),
)

const reviewCreate: CreateOf<typeof reviews> = {
  async run({ store, body, actor }) {
    const user_id = actor.userId
    const [returned] = await findReturned(store.connection, { user_id, book_id: body.book_id })
    if (!returned) throw apiError('FORBIDDEN', { message: 'Only who has returned a book may review it' })
    return store.insert({ ...body, user_id })
  },
}

export default defineResource(reviews, async (app, resource) => {
  app.get('/reviews', list(resource))
  app.get('/reviews/:id', read(resource))
  app.post('/reviews', create(resource, reviewCreate))
  app.patch('/reviews/:id', update(resource))
  app.delete('/reviews/:id', remove(resource))
})
