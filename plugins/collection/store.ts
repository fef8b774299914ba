/** Writing rows: one insert, one update that bumps the revision, one delete; each told in the contract's words. */
import { and, eq, getTableColumns, sql } from 'drizzle-orm'
import {
  getTableConfig,
  type PgColumn,
  PgDialect,
  PgInsertBuilder,
  PgUpdateBuilder,
} from 'drizzle-orm/pg-core'
import type { Violation } from '../../schemas/error.ts'
import { SqlError } from '../database/errors.ts'
import type { Connection, Param } from '../database/types.ts'
import { apiError, invalidBody } from '../errors.ts'
import type { AnyCard, Row } from './define.ts'
import { searchText } from './fold.ts'

/** What an action writes with; all in the one transaction of the request. */
export interface Store<R> {
  /** For statements of the card's own. */
  connection: Connection
  insert(values: Partial<R>): Promise<R>
  /** Changes what differs, and nothing where nothing does. */
  update(current: R, values: Partial<R>): Promise<R>
  remove(current: R): Promise<void>
}

const dialect = new PgDialect()
const session = undefined as never

/** Whether a moment as the wire has it is the one that a row has, which knows three digits more. */
const sameMoment = (a: unknown, b: unknown) =>
  typeof a === 'string' && typeof b === 'string' && Date.parse(a) === Date.parse(b)

/** Whether two values of a member are the same: as JSON, whatever order an object's members stand in. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return (
    left.length === right.size &&
    left.every(([name, value]) => right.has(name) && same(value, right.get(name)))
  )
}

const UNIQUE = '23505'
const FOREIGN_KEY = '23503'

/** The constraints of a table that a client can run into, by their names. */
function constraintsOf(card: AnyCard) {
  const { indexes, foreignKeys } = getTableConfig(card.table)
  const unique = indexes.flatMap(({ config }) => {
    const [column] = config.columns
    return config.unique && config.name && column && 'name' in column
      ? [[config.name, String(column.name)] as const]
      : []
  })
  const foreign = foreignKeys.flatMap((key) => {
    const [column] = key.reference().columns
    return column ? [[key.getName(), column.name] as const] : []
  })
  return { unique: new Map(unique), foreign: new Map(foreign) }
}

export function createStores(card: AnyCard) {
  const columns: Record<string, PgColumn> = getTableColumns(card.table)
  const returning = Object.fromEntries(Object.entries(columns).filter(([name]) => name !== 'search'))
  const moments = new Set(
    Object.keys(columns).filter((name) => columns[name]?.columnType.startsWith('PgTimestamp')),
  )
  const { unique, foreign } = constraintsOf(card)

  /** What a constraint has to say, in words; anything else goes on as it is. */
  const told = (error: unknown): unknown => {
    if (!(error instanceof SqlError)) return error
    const name = error.constraint ?? ''
    const taken = unique.get(name)
    if (error.code === UNIQUE && taken !== undefined) {
      const violation: Violation = { field: taken, message: 'is taken', code: 'ALREADY_EXISTS' }
      return apiError('RESOURCE_CONFLICT', {
        message: `The ${taken} is taken`,
        violations: [violation],
        cause: error,
      })
    }
    if (error.code !== FOREIGN_KEY) return error
    const missing = foreign.get(name)
    if (missing === undefined) {
      return apiError('RESOURCE_CONFLICT', {
        message: 'Other resources still refer to this one',
        cause: error,
      })
    }
    if (missing === card.parent?.member) return apiError('RESOURCE_NOT_FOUND', { cause: error })
    return invalidBody([{ field: missing, message: 'there is no such resource', code: 'NOT_FOUND' }])
  }

  const run = async (connection: Connection, query: { toSQL(): { sql: string; params: unknown[] } }) => {
    const { sql: text, params } = query.toSQL()
    try {
      return (await connection.run(text, params as Param[])) as Row[]
    } catch (error) {
      throw told(error)
    }
  }

  const searched = (row: Readonly<Record<string, unknown>>) =>
    'search' in columns ? { search: searchText(row, card.search) } : {}

  return (connection: Connection): Store<Row> => ({
    connection,

    async insert(values) {
      const insert = new PgInsertBuilder(card.table, session, dialect)
        .values({ ...values, ...searched(values) })
        .returning(returning)
      const [row] = await run(connection, insert)
      if (!row) throw new Error('An insert returned no row')
      return row
    },

    async update(current, values) {
      const changed = Object.fromEntries(
        Object.entries(values).filter(
          ([name, value]) =>
            name in columns &&
            !same(value, current[name]) &&
            !(moments.has(name) && sameMoment(value, current[name])),
        ),
      )
      if (Object.keys(changed).length === 0) return current
      const search = card.search.some((name) => name in changed) ? searched({ ...current, ...changed }) : {}
      const update = new PgUpdateBuilder(card.table, session, dialect)
        .set({
          ...changed,
          ...search,
          revision: sql`${card.table.revision} + 1`,
          // Never earlier than before, whatever the clock does.
          updated_at: sql`greatest(clock_timestamp(), ${card.table.updated_at} + interval '1 microsecond')`,
        })
        .where(and(eq(card.table.id, current.id), eq(card.table.revision, current.revision)))
        .returning(returning)
      const [row] = await run(connection, update)
      if (!row) throw apiError('PRECONDITION_FAILED')
      return row
    },

    async remove(current) {
      await run(connection, {
        toSQL: () =>
          dialect.sqlToQuery(
            sql`delete from ${card.table} where ${card.table.id} = ${current.id} and ${card.table.revision} = ${current.revision}`,
          ),
      })
    },
  })
}
