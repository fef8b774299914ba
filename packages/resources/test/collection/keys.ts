/** Collections on tables that others have made, one for each kind of key, for tests. */
import { type TProperties, Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  char,
  date,
  integer,
  numeric,
  pgSchema,
  pgTable,
  primaryKey,
  smallint,
  timestamp,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import { Decimal, Id, Integer, Nullable, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { text } from '../../../database/src/columns.ts'
import { existing } from '../../../database/src/key.ts'
import { toEveryRole } from '../../../database/src/roles.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { collection } from '../../src/definition/definition.ts'

const all = toEveryRole(true)
const access = {
  list: all,
  read: all,
  create: all,
  replace: all,
  update: all,
  remove: all,
  restore: all,
}

const label = Text({ minLength: 1, maxLength: 50, description: 'The label', examples: ['Tea'] })
const code = (maxLength: number) =>
  Text({ minLength: 1, maxLength, description: 'The code', examples: ['TEA'] })
const Day = Text({ format: 'date', description: 'A day', examples: ['2026-11-21'] })
const number = Integer(-2_147_483_648, 2_147_483_647, { description: 'A number', examples: [42] })

/** The columns have other names than the members, and none is one of ours. */
const albums = existing(
  pgTable('key_albums', {
    id: integer('AlbumId').primaryKey().generatedAlwaysAsIdentity(),
    label: varchar('Title', { length: 50 }).notNull(),
    last_update: timestamp('last_update', { withTimezone: true, mode: 'string' }).notNull(),
    create_date: timestamp('create_date', { withTimezone: true, mode: 'string' }).notNull(),
  }),
  { key: ['id'], created: 'create_date', updated: 'last_update' },
)
const serials = existing(
  pgTable('key_serials', {
    id: integer('no').primaryKey().default(sql`nextval('key_serials_no_seq')`),
    label: varchar('label', { length: 50 }).notNull(),
  }),
  { key: ['id'] },
)
const numbers = existing(
  pgTable('key_numbers', { id: smallint('number').primaryKey(), label: varchar({ length: 50 }).notNull() }),
  { key: ['id'] },
)
const customers = existing(
  pgTable('key_customers', { id: varchar('code', { length: 5 }).primaryKey(), label: text().notNull() }),
  { key: ['id'] },
)
const pages = existing(pgTable('key_pages', { id: text('path').primaryKey(), label: text().notNull() }), {
  key: ['id'],
})
const guids = existing(
  pgTable('key_guids', { id: uuid('guid').primaryKey().defaultRandom(), label: text().notNull() }),
  { key: ['id'] },
)
const tickets = existing(
  pgTable('key_tickets', { id: uuid('ticket').primaryKey(), label: text().notNull() }),
  { key: ['id'] },
)
const lines = existing(
  pgTable(
    'key_lines',
    {
      order_number: integer('OrderNumber').notNull(),
      product: varchar('Product', { length: 20 }).notNull(),
      day: date().notNull(),
      label: text().notNull(),
    },
    (t) => [primaryKey({ columns: [t.order_number, t.product, t.day] })],
  ),
  { key: ['order_number', 'product', 'day'] },
)
const codes = existing(
  pgTable('key_codes', { id: char('code', { length: 6 }).primaryKey(), label: text().notNull() }),
  { key: ['id'] },
)
const payments = existing(
  pgTable(
    'key_payments',
    {
      paid_at: timestamp({ withTimezone: true, mode: 'string' }).notNull(),
      amount: numeric({ precision: 8, scale: 2 }).notNull(),
      is_cash: boolean().notNull(),
      branch: char({ length: 3 }).notNull(),
      label: text().notNull(),
    },
    (t) => [primaryKey({ columns: [t.paid_at, t.amount, t.is_cash, t.branch] })],
  ),
  { key: ['paid_at', 'amount', 'is_cash', 'branch'] },
)
/** With the name of a table of the service, in another schema. */
const members = existing(
  pgSchema('key_store').table('users', {
    id: integer('user').primaryKey().generatedByDefaultAsIdentity(),
    label: text().notNull(),
  }),
  { key: ['id'] },
)
/** Its columns have names that mean something in tables of ours, in lists or in SQL. */
const words = existing(
  pgTable('key_words', {
    id: bigint('order', { mode: 'number' }).primaryKey().generatedByDefaultAsIdentity(),
    label: text().notNull(),
    created_at: text(),
    updated_at: text(),
    search: text(),
    limit: text(),
    version: text('revision'),
    user: text(),
  }),
  { key: ['id'] },
)
const discs = existing(
  pgTable('key_discs', {
    id: integer('disc').primaryKey().generatedByDefaultAsIdentity(),
    album_id: integer('AlbumId')
      .notNull()
      .references(() => albums.id),
    label: text().notNull(),
  }),
  { key: ['id'] },
)
const shelves = existing(
  pgTable('key_shelves', { id: varchar('code', { length: 9 }).primaryKey(), label: text().notNull() }),
  { key: ['id'] },
)
const books = existing(
  pgTable('key_books', {
    id: integer('book').primaryKey().generatedByDefaultAsIdentity(),
    shelf: varchar({ length: 9 })
      .notNull()
      .references(() => shelves.id),
    label: text().notNull(),
  }),
  { key: ['id'] },
)
/** Rows that refer to others of the same table, and to those of another one. */
const tracks = existing(
  pgTable('key_tracks', {
    id: integer('TrackId').primaryKey().generatedByDefaultAsIdentity(),
    album_id: integer('AlbumId').references(() => albums.id, { onDelete: 'cascade' }),
    customer: varchar('CustomerCode', { length: 5 }).references(() => customers.id),
    label: text().notNull(),
  }),
  { key: ['id'] },
)

export async function createKeyTables(database: Database): Promise<void> {
  for (const statement of [
    `create table key_albums ("AlbumId" integer generated always as identity primary key, "Title" varchar(50) not null,
      last_update timestamptz not null default '2020-01-01', create_date timestamptz not null)`,
    'create table key_serials (no serial primary key, label varchar(50) not null)',
    'create table key_numbers (number smallint primary key, label varchar(50) not null)',
    'create table key_customers (code varchar(5) primary key, label text not null)',
    'create table key_pages (path text primary key, label text not null)',
    'create table key_guids (guid uuid primary key default gen_random_uuid(), label text not null)',
    'create table key_tickets (ticket uuid primary key, label text not null)',
    `create table key_lines ("OrderNumber" integer, "Product" varchar(20), day date, label text not null,
      primary key ("OrderNumber", "Product", day))`,
    `create table key_words ("order" bigint generated by default as identity primary key, label text not null, created_at text,
      updated_at text, search text, "limit" text, revision text, "user" text)`,
    `create table key_discs (disc integer generated by default as identity primary key,
      "AlbumId" integer not null references key_albums, label text not null)`,
    'create table key_shelves (code varchar(9) primary key, label text not null)',
    `create table key_books (book integer generated by default as identity primary key,
      shelf varchar(9) not null references key_shelves, label text not null)`,
    'create schema key_store',
    'create table key_store.users ("user" integer generated by default as identity primary key, label text not null)',
    'create table key_codes (code char(6) primary key, label text not null)',
    `create table key_payments (paid_at timestamptz, amount numeric(8, 2), is_cash boolean, branch char(3), label text not null,
      primary key (paid_at, amount, is_cash, branch))`,
    `create table key_tracks ("TrackId" integer generated by default as identity primary key,
      "AlbumId" integer references key_albums on delete cascade, "CustomerCode" varchar(5) references key_customers,
      label text not null)`,
  ])
    await database.run(statement)
}

const payment = {
  paid_at: Timestamp('When'),
  amount: Decimal(8, 2, { examples: ['1.50'] }),
  is_cash: Type.Boolean({ examples: [true] }),
  branch: code(3),
}
const word = Nullable(Text({ maxLength: 9, examples: ['x'] }))
const other = { created_at: word, updated_at: word, search: word, limit: word, version: word, user: word }
const rest = { description: 'Rows of others', access, lists: { sorts: ['label'] } } as const
const toBodies = <C extends TProperties>(title: string, create: C) => ({
  create: Type.Object(create, { title: `${title}Create` }),
  change: Type.Object({ label }, { title: `${title}Change` }),
})

/** By what they are tested as. */
export const keyCollections = {
  identity: collection({
    ...rest,
    table: albums,
    schemas: {
      read: Type.Object(
        { id: number, label, create_date: Timestamp('Made'), last_update: Timestamp('Changed') },
        { title: 'KeyAlbum' },
      ),
      ...toBodies('KeyAlbum', { label }),
    },
  }),
  serial: collection({
    ...rest,
    table: serials,
    schemas: {
      read: Type.Object({ id: number, label }, { title: 'KeySerial' }),
      ...toBodies('KeySerial', { label }),
    },
  }),
  number: collection({
    ...rest,
    table: numbers,
    schemas: {
      read: Type.Object({ id: number, label }, { title: 'KeyNumber' }),
      ...toBodies('KeyNumber', {
        id: Integer(-32_768, 32_767, { description: 'The number', examples: [7] }),
        label,
      }),
    },
  }),
  varchar: collection({
    ...rest,
    table: customers,
    relations: { tracks: { to: tracks, local: 'id', foreign: 'customer', many: true } },
    schemas: {
      read: Type.Object({ id: code(5), label }, { title: 'KeyCustomer' }),
      ...toBodies('KeyCustomer', { id: code(5), label }),
    },
  }),
  text: collection({
    ...rest,
    table: pages,
    schemas: {
      read: Type.Object({ id: code(2704), label }, { title: 'KeyPage' }),
      ...toBodies('KeyPage', { id: code(2704), label }),
    },
  }),
  uuidDefault: collection({
    ...rest,
    table: guids,
    schemas: {
      read: Type.Object({ id: Id(), label }, { title: 'KeyGuid' }),
      ...toBodies('KeyGuid', { label }),
    },
  }),
  uuid: collection({
    ...rest,
    table: tickets,
    schemas: {
      read: Type.Object({ id: Id(), label }, { title: 'KeyTicket' }),
      ...toBodies('KeyTicket', { label }),
    },
  }),
  composite: collection({
    ...rest,
    table: lines,
    bodies: { immutable: ['order_number', 'product', 'day'] },
    schemas: {
      read: Type.Object(
        { id: code(100), order_number: number, product: code(20), day: Day, label },
        { title: 'KeyLine' },
      ),
      ...toBodies('KeyLine', { order_number: number, product: code(20), day: Day, label }),
    },
  }),
  words: collection({
    ...rest,
    table: words,
    schemas: {
      read: Type.Object({ id: number, label, ...other }, { title: 'KeyWord' }),
      ...toBodies('KeyWord', { label, ...other }),
    },
  }),
  schema: collection({
    ...rest,
    name: 'key-members',
    table: members,
    schemas: {
      read: Type.Object({ id: number, label }, { title: 'KeyMember' }),
      ...toBodies('KeyMember', { label }),
    },
  }),
  char: collection({
    ...rest,
    table: codes,
    schemas: {
      read: Type.Object({ id: code(6), label }, { title: 'KeyCode' }),
      ...toBodies('KeyCode', { id: code(6), label }),
    },
  }),
  times: collection({
    ...rest,
    table: payments,
    bodies: { immutable: ['paid_at', 'amount', 'is_cash', 'branch'] },
    schemas: {
      read: Type.Object({ id: code(100), ...payment, label }, { title: 'KeyPayment' }),
      ...toBodies('KeyPayment', { ...payment, label }),
    },
  }),
}

/** Rows that refer to those of other tables. */
const trackCollection = collection({
  ...rest,
  table: tracks,
  relations: {
    album: { to: albums, local: 'album_id', foreign: 'id', many: false, inverse: 'tracks' },
    buyer: { to: customers, local: 'customer', foreign: 'id', many: false },
  },
  schemas: {
    read: Type.Object(
      { id: number, album_id: Nullable(number), customer: Nullable(code(5)), label },
      { title: 'KeyTrack' },
    ),
    ...toBodies('KeyTrack', { album_id: Nullable(number), customer: Nullable(code(5)), label }),
  },
})

/** Collections below rows with other keys than UUIDs. */
const nested = [
  collection({
    ...rest,
    table: discs,
    parent: { to: 'key-albums', member: 'album_id' },
    schemas: {
      read: Type.Object({ id: number, album_id: number, label }, { title: 'KeyDisc' }),
      ...toBodies('KeyDisc', { label }),
    },
  }),
  collection({
    ...rest,
    table: shelves,
    schemas: {
      read: Type.Object({ id: code(9), label }, { title: 'KeyShelf' }),
      ...toBodies('KeyShelf', { id: code(9), label }),
    },
  }),
  collection({
    ...rest,
    table: books,
    parent: { to: 'key-shelves', member: 'shelf' },
    schemas: {
      read: Type.Object({ id: number, shelf: code(9), label }, { title: 'KeyBook' }),
      ...toBodies('KeyBook', { label }),
    },
  }),
]

export const keyResources = [...Object.values(keyCollections), trackCollection, ...nested].map((each) =>
  serve(each),
)
