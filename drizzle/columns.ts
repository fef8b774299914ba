/** The columns that every table has, and the column types that Drizzle lacks. */
import { bigint, customType, timestamp, uuid } from 'drizzle-orm/pg-core'

/** Text that sorts by code point, alike on every database. */
export const text = customType<{ data: string }>({ dataType: () => 'text COLLATE "C"' })

/** A moment, kept to the microsecond and read as PostgreSQL's own text: a JavaScript Date would lose three digits. */
export const moment = () => timestamp({ withTimezone: true, mode: 'string', precision: 6 })

/** An integer up to 2^53 - 1, which is what JSON's readers can hold. */
export const integer = () => bigint({ mode: 'number' })

/** What every row has. `revision` grows with every change: entity tags and If-Match compare it. */
export const common = () => ({
  id: uuid().primaryKey(),
  created_at: moment().notNull().defaultNow(),
  updated_at: moment().notNull().defaultNow(),
  revision: integer().notNull().default(1),
})

/** The searchable members of a row, folded by the server (`plugins/collection/sql/case-folding.ts`), a line each. */
export const folded = () => text().notNull().default('')
