/** Shows and their tickets, whose action takes a seat of the show: resources whose writes lock rows of each other. */
import { Type } from '@sinclair/typebox'
import { type PgTable, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { resources } from '../../../src/resources.ts'
import { apiError } from '../../api/src/errors/errors.ts'
import { CALLER } from '../../api/src/rules/rules.ts'
import { exampleId, Id, Integer, Text, Timestamp } from '../../api/src/schemas/types.ts'
import { common, integer, moment, text } from '../../database/src/columns.ts'
import { users } from '../../database/src/user-tables.ts'
import type { Row, Store } from '../../resources/src/definition/store.ts'
import type { ResourcePlugin } from '../../resources/src/routes/plugin.ts'
import { define } from '../../resources/test/collection/adopted.ts'
import { testApp } from './app.ts'
import { type Owner, openDatabase, testDatabase, testDatabaseUrl } from './database.ts'
import { stopEventWork } from './events.ts'
import { createTable } from './rows.ts'
import { serve } from './serve.ts'

const shows = pgTable(
  'lock_shows',
  {
    ...common(),
    code: text().notNull(),
    title: text().notNull(),
    status: text().notNull(),
    seats: integer().notNull(),
  },
  (t) => [uniqueIndex('lock_shows_code_unique').on(t.code)],
)
const tickets = pgTable('lock_tickets', {
  ...common(),
  show_id: uuid()
    .notNull()
    .references(() => shows.id),
  user_id: uuid()
    .notNull()
    .references(() => users.id),
  note: text().notNull().default(''),
})
/** Their code copies a column of the show to which they refer. */
const reviews = pgTable('lock_reviews', {
  ...common(),
  show_id: uuid()
    .notNull()
    .references(() => shows.id),
  title: text().notNull(),
})
/** Halls are booked for periods that do not overlap. */
const bookings = pgTable('lock_bookings', {
  ...common(),
  hall: integer().notNull(),
  starts_at: moment().notNull(),
  ends_at: moment().notNull(),
})

const tables: readonly PgTable[] = [shows, tickets, reviews, bookings]

const Reference = Text({ format: 'uuid', examples: [exampleId] })
const Short = Text({ maxLength: 100, examples: ['A'] })
const Seats = Integer(0, 1_000)
const all = { admin: true, member: true } as const
const own = { admin: true, member: [{ user_id: CALLER }] } as const
const open = { admin: true, member: [{ status: 'open' }] } as const

/** Called by the change of a show, between the lock and the update. */
export const hooks: { beforeUpdate: (() => Promise<void>) | undefined } = { beforeUpdate: undefined }

const soldOut = () => apiError('RESOURCE_CONFLICT', { message: 'The show is sold out' })

async function takeSeat(store: Store<Row>, showId: string): Promise<void> {
  const show = await store.of(shows).find(showId)
  if (!show || show.seats < 1) throw soldOut()
  await store.of(shows).change(show.id, { seats: show.seats - 1 })
}

const definitions: readonly ResourcePlugin[] = [
  serve(
    define(
      {
        name: 'shows',
        singular: 'Show',
        table: shows,
        fields: { code: Short, title: Short, status: Short, seats: Seats },
      },
      {
        access: { list: open, read: open, create: all, replace: open, update: open, remove: open },
      },
    ),
    {
      change: {
        async run({ store, current, next }) {
          await hooks.beforeUpdate?.()
          return store.update(current, next)
        },
      },
      actions: {
        purchases: {
          operationId: 'buyTicket',
          summary: 'Buy a ticket',
          description: 'Takes a seat and creates the ticket.',
          access: open,
          response: Type.Object({ id: Id() }, { title: 'Purchase' }),
          async run({ store, current: show, actor }) {
            if (Number(show.seats) < 1) throw soldOut()
            await store.update(show, { seats: Number(show.seats) - 1 })
            await store
              .of(tickets)
              .create({ show_id: String(show.id), user_id: actor.userId, note: 'bought' })
            return { id: show.id }
          },
        },
      },
    },
  ),
  serve(
    define(
      {
        name: 'tickets',
        singular: 'Ticket',
        table: tickets,
        fields: { show_id: Reference, note: Short },
        readOnly: { user_id: Reference },
      },
      {
        access: { list: own, read: own, create: own, replace: own, update: own, remove: own },
        defaults: (actor) => ({ user_id: actor.userId }),
      },
    ),
    {
      create: {
        locks: {
          table: shows,
          find: async (_connection, writes) =>
            writes.flatMap(({ fields }) => (fields?.show_id ? [String(fields.show_id)] : [])),
        },
        async run({ store, body }) {
          // The operation of a show has taken the seat.
          if (body.note === 'bought') return store.insert(body)
          if (body.note !== 'late') await takeSeat(store, String(body.show_id))
          const ticket = await store.insert(body)
          if (body.note === 'late') await takeSeat(store, String(body.show_id))
          return ticket
        },
      },
    },
  ),
  serve(
    define(
      {
        name: 'reviews',
        singular: 'Review',
        table: reviews,
        fields: { show_id: Reference },
        readOnly: { title: Short },
      },
      { access: { list: all, read: all, create: all } },
    ),
    {
      create: {
        async run({ store, body }) {
          const show = await store.of(shows).find(String(body.show_id), 'reference')
          if (!show) throw apiError('RESOURCE_CONFLICT', { message: 'The show does not exist' })
          return store.insert({ ...body, title: show.title })
        },
      },
    },
  ),
  serve(
    define(
      {
        name: 'bookings',
        singular: 'Booking',
        table: bookings,
        fields: { hall: Seats, starts_at: Timestamp('The start'), ends_at: Timestamp('The end') },
      },
      {
        access: { list: all, read: all, create: all, replace: all, update: all, remove: all },
        constraints: {
          lock_bookings_no_overlap: {
            code: 'ALREADY_EXISTS',
            fields: ['starts_at', 'ends_at'],
            message: 'The hall is taken',
          },
        },
      },
    ),
  ),
]

interface ShowOptions {
  poolSize?: number
  /** Milliseconds that a statement waits for a lock. */
  lockTimeout?: number
  settings?: Record<string, string>
}

const LONG_MS = 60_000

/** Starts an app with these resources, whose pool has the default size unless the test names another. */
export async function startShows(
  t: Owner,
  { poolSize = 10, lockTimeout = LONG_MS, settings = {} }: ShowOptions = {},
) {
  const { url } = await testDatabaseUrl(t)
  const limits = { poolSize, lockTimeout, statementTimeout: LONG_MS, acquireTimeout: LONG_MS }
  const database = url ? await openDatabase({ url, ...limits }) : await testDatabase(t)
  if (url) t.teardown(() => database.close())
  for (const table of tables) await createTable(database, table)
  await database.run('create unique index lock_shows_code_unique on lock_shows (code)')
  await database.run('create extension if not exists btree_gist')
  await database.run(
    `alter table lock_bookings add constraint lock_bookings_no_overlap
       exclude using gist (hall with =, tstzrange(starts_at, ends_at) with &&)`,
  )
  const started = await testApp(
    t,
    { POOL_SIZE: String(poolSize), ...settings },
    { database, resources: [...resources, ...definitions] },
  )
  await stopEventWork(started.app)
  // A connection of its own: those of the app may all wait.
  const outside = url ? await openDatabase({ url, poolSize: 2, statementTimeout: 0 }) : database
  if (url) t.teardown(() => outside.close())

  /** Returns how many statements of the app wait for a lock. */
  const countWaiting = async (): Promise<number> => {
    const [row] = await outside.run(
      `select count(*) as count from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return Number(row?.count)
  }

  /** Runs a statement in a transaction that keeps its locks while `work` runs, and rolls it back. */
  const holding = async <T>(text: string, params: string[], work: () => Promise<T>): Promise<T> => {
    const rollBack = new Error('rolled back')
    let result: { value: T } | undefined
    await outside
      .transaction(async (tx) => {
        await tx.run(text, params)
        result = { value: await work() }
        // The server ends a transaction that is idle for too long.
        await tx.run('select 1')
        throw rollBack
      })
      .catch((error: unknown) => {
        if (error !== rollBack) throw error
      })
    if (!result) throw new Error('The work has no result')
    return result.value
  }

  return { ...started, outside, countWaiting, holding }
}
