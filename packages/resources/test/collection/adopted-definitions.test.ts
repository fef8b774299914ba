/** Definitions of other kinds than the shipped ones: wide tables, keys of text and numbers, guarded times, days. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { date, pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { apiError } from '../../../api/src/errors/errors.ts'
import { Nullable, Text, Timestamp, YEARS_FROM_1 } from '../../../api/src/schemas/types.ts'
import { common, integer, moment, text } from '../../../database/src/columns.ts'
import { apiKeys, sessions } from '../../../database/src/credential-tables.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { checkRefusals, getViolations, readPages } from '../../../testing/helpers/replies.ts'
import { createTable, insertRows } from '../../../testing/helpers/rows.ts'
import { replaceResource, serve, withChanges } from '../../../testing/helpers/serve.ts'
import { define } from './adopted.ts'

const all = { admin: true } as const
const access = { list: all, read: all, create: all, replace: all, update: all }

const wideNames = Array.from({ length: 60 }, (_, i) => `c${String(i).padStart(2, '0')}`)
const shelves = pgTable('shelves', {
  ...common(),
  code: text().notNull(),
  place: integer().notNull(),
  opens_at: moment().notNull(),
  closes_at: moment().notNull().defaultNow(),
  ...Object.fromEntries(wideNames.map((name) => [name, text()])),
})
const books = pgTable('books', {
  ...common(),
  code: text().notNull(),
  place: integer().notNull(),
  printed_on: date(),
})

const times = { opens_at: Timestamp('Opens'), closes_at: Type.Optional(Timestamp('Closes')) }
const wide = Object.fromEntries(
  wideNames.map((name) => [name, Nullable(Text({ maxLength: 10, examples: [name] }))]),
)
const keys = { code: Text({ examples: ['a'] }), place: Type.Integer({ examples: [1] }) }
const Day = Text({ format: 'date', pattern: YEARS_FROM_1, examples: ['2026-12-01'] })

const shelvesResource = serve(
  define(
    { name: 'shelves', singular: 'Shelf', table: shelves, fields: { ...keys, ...times, ...wide } },
    {
      immutable: ['closes_at'],
      relations: {
        by_code: { to: books, local: 'code', foreign: 'code', many: true },
        by_place: { to: books, local: 'place', foreign: 'place', many: false },
      },
      access,
    },
  ),
  {
    change: {
      guard({ changed }) {
        if (changed.has('opens_at')) throw apiError('FORBIDDEN')
      },
    },
  },
)
const booksResource = define(
  { name: 'books', singular: 'Book', table: books, fields: { ...keys, printed_on: Nullable(Day) } },
  {
    // By the same column as a relation of shelves, but to one row.
    relations: { same_code: { to: books, local: 'code', foreign: 'code', many: false } },
    ranges: ['printed_on'],
    unindexed: ['printed_on'],
    sorts: {
      printed_on: {
        column: books.printed_on,
        ascending: sql`coalesce(${books.printed_on}, 'infinity'::date)`,
        descending: sql`coalesce(${books.printed_on}, '-infinity'::date)`,
        nulls: { ascending: 'infinity', descending: '-infinity' },
      },
    },
    access,
  },
)

const owned = { local: 'id', foreign: 'user_id', many: true } as const
const relations = { sessions: { to: sessions, ...owned }, keys: { to: apiKeys, ...owned } }
const definitions = replaceResource(resources, 'users', (users) => withChanges(users, { relations }))

const database = await testDatabase(t)
for (const table of [shelves, books]) await createTable(database, table)
const overrides = { database, resources: [...definitions, shelvesResource, booksResource] }
const { admin, person } = await testApp(t, {}, overrides)
const insertShelf = async () => {
  const times = { opens_at: '2026-11-21T09:30:00.123456Z', closes_at: '2026-11-22T09:30:00.987654Z' }
  const [id] = await insertRows(database, 'shelves', [{ code: 'a', place: 1, ...times }])
  return `/shelves/${id}`
}

t.test('an API key includes neither sessions nor keys; a Bearer token does', async (t) => {
  const { id, client, bearer, sessionId } = await person('admin')
  for (const include of ['sessions', 'keys', 'keys,sessions']) {
    for (const path of [`/users/${id}?include=${include}`, `/users?include=${include}`]) {
      const error = { message: /requires a Bearer token/ }
      t.match(await client.get(path), { status: 403, body: { error } }, path)
      t.equal((await bearer.get(path)).status, 200, path)
    }
  }
  const { body } = await bearer.get(`/users/${id}?include=sessions`)
  t.match(body.data.sessions, [{ id: sessionId, current: true }])
})

t.test('the tag of a representation that differs between callers differs too', async (t) => {
  const { id, bearer, sessionId } = await person('admin')
  const other = (await person('admin')).bearer
  for (const path of [`/sessions/${sessionId}`, `/users/${id}?include=sessions`, `/sessions?limit=1`]) {
    const tag = (await bearer.get(path)).headers.get('etag') ?? ''
    t.equal((await bearer.get(path, { 'if-none-match': tag })).status, 304, path)
    t.equal((await other.get(path, { 'if-none-match': tag })).status, 200, path)
  }
  const path = `/users/${id}`
  t.equal((await other.get(path)).headers.get('etag'), (await bearer.get(path)).headers.get('etag'))
})

t.test('every column of a wide table is written', async (t) => {
  const path = await insertShelf()
  for (const [i, name] of wideNames.entries()) {
    const sent = { [name]: `${i}`, ...(i % 2 && { [wideNames[0] ?? '']: `${i}` }) }
    t.match(await admin.patch(path, sent), { status: 200, body: { data: sent } }, name)
  }
})

t.test('relations compare texts and numbers as they compare ids', async (t) => {
  const path = await insertShelf()
  const code = 'a "quoted", {braced} \\ text'
  await admin.patch(path, { code, place: 7 })
  const [first, second] = await insertRows(database, 'books', [
    { code, place: 7 },
    { code, place: 8 },
  ])
  const { status, body } = await admin.get(`${path}?include=by_code,by_place`)
  t.equal(status, 200)
  t.same(body.data.by_code.map(({ id }: Json) => id).sort(), [first, second].sort())
  t.equal(body.data.by_place.id, first)
  const list = await admin.get('/shelves?include=by_code&page=1')
  t.equal(list.status, 200, 'in the default order, which these resources do not name')
  const book = await admin.get(`/books/${first}?include=same_code`)
  t.match(book.body.data.same_code, { code }, 'another relation by the same column includes one row')
})

t.test('a PUT of what was read changes nothing, also where a time is guarded or immutable', async (t) => {
  const path = await insertShelf()
  const read = await admin.get(path)
  const { status, headers } = await admin.put(path, read.body.data)
  t.equal(status, 200)
  t.equal(headers.get('etag'), read.headers.get('etag'))
  const { opens_at, closes_at } = read.body.data
  const later = (time: string) => time.replace('2026', '2027')
  t.equal((await admin.patch(path, { opens_at: later(opens_at) })).status, 403)
  t.equal((await admin.put(path, { ...read.body.data, closes_at: later(closes_at) })).status, 422)
})

t.test('days are sorted and compared, and a row without one is last and in no range', async (t) => {
  const days = ['2027-01-01', null, '2027-02-01']
  for (const [place, printed_on] of days.entries())
    t.equal((await admin.post('/books', { code: 'day', place, printed_on })).status, 201)
  const walk = async (query: string) => {
    const found: number[] = []
    for await (const { body } of readPages(admin, `/books?${query}&limit=1`))
      found.push(...body.data.flatMap(({ code, place }: Json) => (code === 'day' ? [place] : [])))
    return found
  }
  t.same(await walk('sort=printed_on'), [0, 2, 1])
  t.same(await walk('sort=-printed_on'), [2, 0, 1])
  t.same(await walk('printed_on_min=2027-01-01&printed_on_max=2027-01-31'), [0])
  t.same(await walk('printed_on_min=0001-01-01&sort=printed_on'), [0, 2])
  const [min, max] = ['printed_on_min INVALID_FORMAT', 'printed_on_max INVALID_FORMAT']
  await checkRefusals(t, admin, {
    '/books?printed_on_min=2027-02-29&printed_on_max=0000-01-01': [max, min],
    '/books?printed_on_min=2027-02-02T00:00:00Z': [min],
    '/books?printed_on_min=2027-02-02&printed_on_max=2027-02-01': ['printed_on_min CONFLICTING_PARAMETERS'],
  })
  const body = { code: 'day', place: 3, printed_on: '0000-01-01' }
  t.same(getViolations(await admin.post('/books', body)), ['printed_on INVALID_FORMAT'])
})
