/** The columns that every table has, and the column types that Drizzle lacks. */
import { type SQL, sql } from 'drizzle-orm'
import {
  bigint,
  customType,
  type ExtraConfigColumn,
  index,
  type PgColumn,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core'

/** Text that sorts by code point, independent of the database's locale. */
export const text = customType<{ data: string }>({ dataType: () => 'text COLLATE "C"' })

/** A time in microseconds, read as PostgreSQL's text: a JavaScript Date would lose three digits. */
export const moment = () => timestamp({ withTimezone: true, mode: 'string', precision: 6 })

/** An integer up to 2^53 - 1, the largest that JSON parsers read exactly. */
export const integer = () => bigint({ mode: 'number' })

/** A UUIDv7 (RFC 9562, section 5.7), which PostgreSQL makes itself only from version 18 on. */
export const uuidv7 = sql`encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid`

/** The columns of every resource. `revision` grows with every change: ETag and If-Match are compared by it. */
export const common = () => ({
  id: uuid().primaryKey(),
  created_at: moment().notNull().defaultNow(),
  updated_at: moment().notNull().defaultNow(),
  revision: integer().notNull().default(1),
})

/** The searchable members of a row, one per line, case-folded by `case-folding.ts` of `@resource-api/resources`. */
export const folded = () => text().notNull().default('')

/**
 * The first characters of one searchable member: a line of `folded()`. `{field}_prefix` compares them, by an index on this
 * expression. A prefix has 100 characters, which case folding makes 300 at most; PostgreSQL indexes no text of more than
 * 2,704 bytes.
 * @param place of the member among those that are searched, from 1
 */
export const foldedLine = (column: PgColumn, place: number): SQL =>
  sql`left(split_part(${column}, chr(10), ${sql.raw(String(place))}), 300)`

/** An index for `search`: it finds parts of words. */
export const trigrams = (name: string, column: ExtraConfigColumn) =>
  index(name).using('gin', column.op('gin_trgm_ops'))
