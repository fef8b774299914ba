/** Writes rows: inserts, updates that increment the revision, and deletes. */
import { and, eq, getTableColumns, or, type SQL, sql } from 'drizzle-orm'
import { type PgColumn, PgDialect } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Actor, Rule } from '../../access/index.ts'
import type { ResourceDefinition, Row, Store } from '../definition.ts'
import { buildSearchText } from './case-folding.ts'
import { buildRuleCondition, getColumn } from './conditions.ts'
import { createConstraintErrors } from './constraint-errors.ts'
import { createStatements, param, type Query, type Values } from './statements.ts'

/** The row to update without reading it, and the caller. */
export interface UnreadTarget {
  id: string
  parent: string | undefined
  rule: Rule
  actor: Actor
}

/** The row has changed since it was read. `write/strategies.ts` catches it and writes again with a lock. */
export class StaleRowError extends Error {
  override readonly name = 'StaleRowError'
}

/** The parameters that select the row; columns to set have parameters of their own names. */
const CURRENT = { id: 'current_id', revision: 'current_revision', parent: 'current_parent' }

const dialect = new PgDialect()
/** Builds statements; `runStatement` runs them. */
const build = drizzle(async () => {
  throw new Error('Statements are only built here')
})

/** Compares timestamps by the millisecond: a row has microseconds, which a client never sees. */
const isSameTimestamp = (a: unknown, b: unknown) =>
  typeof a === 'string' && typeof b === 'string' && Date.parse(a) === Date.parse(b)

/** Compares two values as JSON; the order of an object's properties does not matter. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return (
    left.length === right.size &&
    left.every(([name, value]) => right.has(name) && isSame(value, right.get(name)))
  )
}

/** The parts of a resource that its writes depend on. */
export type StoredResource = Pick<ResourceDefinition, 'table' | 'schemas' | 'search'> & {
  parent?: { member: string }
}

/** Creates the functions that write the rows of one resource. */
export function createStores(resource: StoredResource) {
  const { table, search, parent } = resource
  const columns: Record<string, PgColumn> = getTableColumns(table)
  const columnNames = Object.keys(columns).sort()
  const returning = Object.fromEntries(Object.entries(columns).filter(([name]) => name !== 'search'))
  const timestamps = new Set(
    columnNames.filter((name) => columns[name]?.columnType.startsWith('PgTimestamp')),
  )
  const toApiError = createConstraintErrors(resource, parent?.member)
  const runStatement = createStatements()

  /** Runs a statement of one row. Resolves to the row, or to undefined if there is none. */
  const runForRow = async (
    connection: Connection,
    key: string,
    values: Values,
    buildQuery: () => Query,
  ): Promise<Row | undefined> => {
    try {
      const [row] = await runStatement(connection, key, values, buildQuery, { canBatch: true })
      return row
    } catch (error) {
      throw toApiError(error)
    }
  }

  const getSearchColumn = (row: Values) =>
    'search' in columns ? { search: buildSearchText(row, search) } : undefined

  const getNames = (values: Values) => columnNames.filter((name) => values[name] !== undefined)

  /** Returns a number for the set of columns that have a value: one bit for each column. */
  const getColumnSet = (values: Values): number => {
    let set = 0
    let bit = 1
    for (const name of columnNames) {
      if (values[name] !== undefined) set += bit
      bit *= 2
    }
    return set
  }

  const toParams = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, param(name)]))

  /** The row with the revision that was read: after a concurrent update, no row matches. */
  const currentRevision = and(eq(table.id, param(CURRENT.id)), eq(table.revision, param(CURRENT.revision)))
  const toCurrentValues = ({ id, revision }: Row) => ({ [CURRENT.id]: id, [CURRENT.revision]: revision })

  const buildUpdate = (names: readonly string[], where: SQL | undefined) =>
    build
      .update(table)
      .set({
        ...toParams(names),
        revision: sql`${table.revision} + 1`,
        // Monotonic even if the system clock is set back.
        updated_at: sql`greatest(clock_timestamp(), ${table.updated_at} + interval '1 microsecond')`,
      })
      .where(where)
      .returning(returning)

  /** Returns the columns whose values differ from the row. */
  const getChanges = (current: Row, values: Values): Values =>
    Object.fromEntries(
      Object.entries(values).filter(
        ([name, value]) =>
          name in columns &&
          !isSame(value, current[name]) &&
          !(timestamps.has(name) && isSameTimestamp(value, current[name])),
      ),
    )

  const store = (connection: Connection): Store<Row> => ({
    connection,

    async insert(fields) {
      const values: Values = { ...fields, ...getSearchColumn(fields) }
      const row = await runForRow(connection, `insert|${getColumnSet(values)}`, values, () =>
        build
          .insert(table)
          .values(toParams(getNames(values)))
          .returning(returning),
      )
      if (!row) throw new Error('An insert returned no row')
      return row
    },

    /** @throws StaleRowError if the row has changed since it was read */
    async update(current, fields) {
      const changes = getChanges(current, fields)
      if (Object.keys(changes).length === 0) return current
      const isSearchChanged = search.some((name) => name in changes)
      const values: Values = {
        ...changes,
        ...(isSearchChanged && getSearchColumn({ ...current, ...changes })),
      }
      const row = await runForRow(
        connection,
        `update|${getColumnSet(values)}`,
        { ...values, ...toCurrentValues(current) },
        () => buildUpdate(getNames(values), currentRevision),
      )
      if (!row) throw new StaleRowError()
      return row
    },

    async remove(current) {
      await runForRow(connection, 'delete', toCurrentValues(current), () => ({
        toSQL: () => dialect.sqlToQuery(sql`delete from ${table} where ${currentRevision}`),
      }))
    },
  })

  /**
   * Updates a row without reading it. Resolves to undefined if the row does not exist under that parent, if the rule
   * does not allow it, or if it has these values already.
   */
  const updateUnread = (
    connection: Connection,
    { id, parent: parentId, rule, actor }: UnreadTarget,
    values: Values,
  ) => {
    const isDifferent = () =>
      or(...getNames(values).map((name) => sql`${getColumn(columns, name)} is distinct from ${param(name)}`))
    const isTarget = () =>
      and(
        eq(table.id, param(CURRENT.id)),
        parent && eq(getColumn(columns, parent.member), param(CURRENT.parent)),
        buildRuleCondition(columns, rule),
        isDifferent(),
      )
    return runForRow(
      connection,
      `unread|${actor.role}|${getColumnSet(values)}`,
      { ...values, [CURRENT.id]: id, [CURRENT.parent]: parentId, caller: actor.userId },
      () => buildUpdate(getNames(values), isTarget()),
    )
  }

  return { store, updateUnread }
}

export type Stores = ReturnType<typeof createStores>
