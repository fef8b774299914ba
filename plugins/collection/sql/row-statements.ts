/** The statements that change one row, record the change, and return the row. */
import { getTableColumns, getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { StatementsByShape, type Values } from '../../../drizzle/client/prepare.ts'
import type { Connection, RunOptions } from '../../../drizzle/client/types.ts'
import { nextUpdatedAt } from '../../../drizzle/expressions.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import {
  type ChangeKind,
  getOriginValues,
  type Recorders,
  type RowsChange,
  recordChange,
} from '../../outbox/recorder.ts'
import type { ResourceDefinition, Row } from '../definition.ts'
import { createConstraintErrors, findConstrainedColumns } from './constraint-errors.ts'

/** The parts of a resource that its writes depend on. */
export type StoredResource = Pick<ResourceDefinition, 'table' | 'schemas' | 'search'> & {
  parent?: { member: string }
}

/** A change of one row. */
interface RowChange {
  kind: ChangeKind
  /** Distinguishes the statement from the others of its kind. */
  shape: string
  values: Values
  build(db: Connection): {
    change: RowsChange
    /** The former values of an update, as JSON. */
    previous?: SQL
    /** Further columns of the changed row, for `previous`. */
    former?: Record<string, SQL>
  }
  options?: RunOptions
}

/** Returns placeholders of the columns' own names. */
export const toPlaceholders = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, sql.placeholder(name)]))

export function createRowStatements(resource: StoredResource, recorders: Recorders) {
  const { table, parent } = resource
  const recorder = recorders.get(getTableName(table))
  const { search: _, ...returning }: Record<string, PgColumn> = getTableColumns(table)
  const columns: Record<string, PgColumn> = getTableColumns(table)
  const columnNames = Object.keys(columns).sort()
  const constrainedColumns = findConstrainedColumns(table)
  const toApiError = createConstraintErrors(resource, parent?.member)
  const statements = new StatementsByShape()

  return {
    columns,
    toApiError,

    /** Returns the columns among the values. */
    getNames: (values: Values) => columnNames.filter((name) => values[name] !== undefined),

    /** Returns the columns among the names that an event shows. */
    getShownNames: (names: readonly string[]) =>
      names.filter((name) => recorder && Object.hasOwn(recorder.columns, name)),

    /**
     * Returns the options of a statement that sets these columns and waits for no lock on its row. It is batched if it can
     * wait for no other transaction either: the statements behind one that waits would time out with it.
     */
    getOptions: (names: readonly string[]): RunOptions => ({
      canBatch: !names.some((name) => constrainedColumns.has(name)),
    }),

    /** Returns an update that sets columns to the values of their placeholders. */
    buildUpdate: (db: Connection, names: readonly string[]) =>
      db.update(table).set({
        ...toPlaceholders(names),
        revision: sql`${table.revision} + 1`,
        updated_at: nextUpdatedAt(table),
      }),

    /**
     * Changes a row. Resolves to it, or to undefined if there is none.
     * @throws ApiError for a violated constraint
     */
    async run(
      connection: Connection,
      origin: ChangeOrigin,
      { kind, shape, values, build, options }: RowChange,
    ): Promise<Row | undefined> {
      const statement = statements.get<Row>(
        `${kind}|${shape}`,
        (db) => {
          const { change, ...former } = build(db)
          return db.execute(
            recorder
              ? recordChange(recorder, kind, change, { returning, ...former })
              : change.returning(returning),
          )
        },
        options,
      )
      try {
        const [row] = await statement(connection, { ...values, ...getOriginValues(origin) })
        return row
      } catch (error) {
        throw toApiError(error)
      }
    },
  }
}

export type RowStatements = ReturnType<typeof createRowStatements>
