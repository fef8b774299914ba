/** The tables of the library. */
import { common, integer, moment, text, userId } from '@resource-api/database'
import { boolean, index, pgTable, pgView, unique, uuid } from 'drizzle-orm/pg-core'

export const shelves = pgTable(
  'shelves',
  { ...common(), user_id: userId(), name: text().notNull(), is_public: boolean().notNull().default(false) },
  (t) => [
    index('shelves_created_at').on(t.created_at, t.id),
    index('shelves_user_id').on(t.user_id, t.created_at, t.id),
  ],
)

const shelfId = () =>
  uuid()
    .notNull()
    .references(() => shelves.id)

export const books = pgTable(
  'books',
  { ...common(), shelf_id: shelfId(), title: text().notNull(), pages: integer().notNull() },
  (t) => [index('books_created_at').on(t.shelf_id, t.created_at, t.id)],
)

const bookId = () =>
  uuid()
    .notNull()
    .references(() => books.id)

export const loans = pgTable(
  'loans',
  {
    ...common(),
    user_id: userId(),
    book_id: bookId(),
    status: text().$type<'requested' | 'lent' | 'returned'>().notNull().default('requested'),
  },
  (t) => [
    index('loans_created_at').on(t.created_at, t.id),
    index('loans_user_id').on(t.user_id, t.created_at, t.id),
    index('loans_book_id').on(t.book_id, t.created_at, t.id),
  ],
)

export const reviews = pgTable(
  'reviews',
  { ...common(), user_id: userId(), book_id: bookId(), rating: integer().notNull() },
  (t) => [
    index('reviews_created_at').on(t.created_at, t.id),
    index('reviews_book_id').on(t.book_id, t.created_at, t.id),
    unique('reviews_one').on(t.user_id, t.book_id),
  ],
)

/** One row of each user, whose id is that of the row. */
export const readers = pgView('readers', {
  id: uuid('user_id').notNull(),
  user_id: uuid().notNull(),
  loans: integer().notNull(),
  created_at: moment().notNull(),
  updated_at: moment().notNull(),
}).existing()

export const READERS = `create view readers as select u.id as user_id, u.created_at, u.updated_at,
  (select count(*) from loans where user_id = u.id) as loans from users u`
