/** The columns that every table has, and the column types that Drizzle lacks. */
import { type SQL, sql } from 'drizzle-orm'
import { bigint, customType, index, timestamp, uuid } from 'drizzle-orm/pg-core'

/** Text that sorts by code point, independent of the database's locale. */
export const text = customType<{ data: string }>({ dataType: () => 'text COLLATE "C"' })

/** A time in microseconds, read as PostgreSQL's text: a JavaScript Date would lose three digits. */
export const moment = () => timestamp({ withTimezone: true, mode: 'string', precision: 6 })

/** An integer up to 2^53 - 1, the largest that JSON parsers read exactly. */
export const integer = () => bigint({ mode: 'number' })

/** The columns of every resource. `revision` grows with every change: ETag and If-Match are compared by it. */
export const common = () => ({
  id: uuid().primaryKey(),
  created_at: moment().notNull().defaultNow(),
  updated_at: moment().notNull().defaultNow(),
  revision: integer().notNull().default(1),
})

/** The searchable members of a row, one per line, case-folded by `plugins/collection/sql/case-folding.ts`. */
export const folded = () => text().notNull().default('')

/** An index for `search`: it finds parts of words. */
export const trigrams = (name: string, column: SQL) => index(name).using('gin', sql`${column} gin_trgm_ops`)
