/** Writing rows: one insert, one update that bumps the revision, one delete; each told in the contract's words. */
import { and, eq, getTableColumns, or, type SQL, sql } from 'drizzle-orm'
import {
  getTableConfig,
  type PgColumn,
  PgDialect,
  PgInsertBuilder,
  PgUpdateBuilder,
} from 'drizzle-orm/pg-core'
import { SqlError } from '../../../drizzle/client/errors.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Violation } from '../../../schemas/error.ts'
import type { Actor, Rule } from '../../access/index.ts'
import { ApiError, apiError, invalidBody } from '../../errors/index.ts'
import type { ResourceDefinition, Row, Store } from '../definition.ts'
import { searchText } from './case-folding.ts'
import { columnOf, ruleCondition } from './conditions.ts'
import { createStatements, run, type Values, value } from './statement-cache.ts'

/** The row that may be changed without being read, and the caller. */
export interface UnreadTarget {
  id: string
  parent: string | undefined
  rule: Rule
  actor: Actor
}

/** The row has changed since it was read. */
export class StaleRowError extends ApiError {
  constructor() {
    super('PRECONDITION_FAILED')
  }
}

/** The names under which a statement gets the row as it was read. */
const CURRENT = { id: 'current_id', revision: 'current_revision', parent: 'current_parent' }

const dialect = new PgDialect()
const session = undefined as never

/** Whether a moment as the wire has it is the one that a row has, which knows three digits more. */
const sameMoment = (a: unknown, b: unknown) =>
  typeof a === 'string' && typeof b === 'string' && Date.parse(a) === Date.parse(b)

/** Whether two values of a member are the same: as JSON, whatever order an object's members stand in. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return (
    left.length === right.size &&
    left.every(([name, value]) => right.has(name) && isSame(value, right.get(name)))
  )
}

const PIPELINED = { canPipeline: true }

const UNIQUE = '23505'
const FOREIGN_KEY = '23503'

/** What of a resource writing its rows depends on. */
export type StoredResource = Pick<ResourceDefinition, 'table' | 'search'> & { parent?: { member: string } }

/** The constraints of a table that a client can run into, by their names. */
function constraintsOf(resource: StoredResource) {
  const { indexes, foreignKeys } = getTableConfig(resource.table)
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

export function createStores(resource: StoredResource) {
  const columns: Record<string, PgColumn> = getTableColumns(resource.table)
  const returning = Object.fromEntries(Object.entries(columns).filter(([name]) => name !== 'search'))
  const moments = new Set(
    Object.keys(columns).filter((name) => columns[name]?.columnType.startsWith('PgTimestamp')),
  )
  const { unique, foreign } = constraintsOf(resource)

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
    if (missing === resource.parent?.member) return apiError('RESOURCE_NOT_FOUND', { cause: error })
    return invalidBody([{ field: missing, message: 'there is no such resource', code: 'NOT_FOUND' }])
  }

  const statement = createStatements()

  /** Runs a statement that is made once for each set of columns, whatever their values. */
  const write = (
    connection: Connection,
    key: string,
    values: Values,
    make: () => { toSQL(): { sql: string; params: unknown[] } },
  ): Promise<Row | undefined> =>
    run(connection, statement(key, make), values, PIPELINED).then(
      ([row]) => row,
      (error) => {
        throw told(error)
      },
    )

  const searched = (row: Readonly<Record<string, unknown>>) =>
    'search' in columns ? { search: searchText(row, resource.search) } : undefined

  const columnNames = Object.keys(columns).sort()

  /** The columns that values go into, in one order. */
  const namesOf = (values: Values) => columnNames.filter((name) => values[name] !== undefined)

  /** A number for each set of columns: two to the power of each one's place. */
  const shapeOf = (values: Values): number => {
    let shape = 0
    let place = 1
    for (const name of columnNames) {
      if (values[name] !== undefined) shape += place
      place *= 2
    }
    return shape
  }

  const placeholders = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, value(name)]))

  /** The row as it was read: who comes second finds another revision. */
  const unchanged = and(
    eq(resource.table.id, value(CURRENT.id)),
    eq(resource.table.revision, value(CURRENT.revision)),
  )
  const currentOf = ({ id, revision }: Row) => ({ [CURRENT.id]: id, [CURRENT.revision]: revision })

  /** An update of these columns, and of what every change of a row changes. */
  const updateOf = (names: readonly string[], where: SQL | undefined) =>
    new PgUpdateBuilder(resource.table, session, dialect)
      .set({
        ...placeholders(names),
        revision: sql`${resource.table.revision} + 1`,
        // Never earlier than before, whatever the clock does.
        updated_at: sql`greatest(clock_timestamp(), ${resource.table.updated_at} + interval '1 microsecond')`,
      })
      .where(where)
      .returning(returning)

  const store = (connection: Connection): Store<Row> => ({
    connection,

    async insert(sent) {
      const values: Values = { ...sent, ...searched(sent) }
      const row = await write(connection, `insert|${shapeOf(values)}`, values, () =>
        new PgInsertBuilder(resource.table, session, dialect)
          .values(placeholders(namesOf(values)))
          .returning(returning),
      )
      if (!row) throw new Error('An insert returned no row')
      return row
    },

    async update(current, sent) {
      const changed = Object.fromEntries(
        Object.entries(sent).filter(
          ([name, value]) =>
            name in columns &&
            !isSame(value, current[name]) &&
            !(moments.has(name) && sameMoment(value, current[name])),
        ),
      )
      if (Object.keys(changed).length === 0) return current
      const isFound = resource.search.some((name) => name in changed)
      const values: Values = { ...changed, ...(isFound && searched({ ...current, ...changed })) }
      const row = await write(
        connection,
        `update|${shapeOf(values)}`,
        { ...values, ...currentOf(current) },
        () => updateOf(namesOf(values), unchanged),
      )
      if (!row) throw new StaleRowError()
      return row
    },

    async remove(current) {
      await write(connection, 'delete', currentOf(current), () => ({
        toSQL: () => dialect.sqlToQuery(sql`delete from ${resource.table} where ${unchanged}`),
      }))
    },
  })

  /** Changes a row that was not read, if it is one of those meant and these values make a difference to it. */
  const updateUnread = (
    connection: Connection,
    { id, parent, rule, actor }: UnreadTarget,
    values: Values,
  ) => {
    const isAnother = () =>
      or(...namesOf(values).map((name) => sql`${columnOf(columns, name)} is distinct from ${value(name)}`))
    const isMeant = () =>
      and(
        eq(resource.table.id, value(CURRENT.id)),
        resource.parent && eq(columnOf(columns, resource.parent.member), value(CURRENT.parent)),
        ruleCondition(columns, rule),
        isAnother(),
      )
    return write(
      connection,
      `unseen|${actor.role}|${shapeOf(values)}`,
      { ...values, [CURRENT.id]: id, [CURRENT.parent]: parent, caller: actor.userId },
      () => updateOf(namesOf(values), isMeant()),
    )
  }

  return { store, updateUnread }
}

export type Stores = ReturnType<typeof createStores>
