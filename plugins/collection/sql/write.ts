/** Writes rows: inserts, updates that increment the revision, and deletes. Each statement records its change. */
import { and, eq, getTableColumns, getTableName, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { prepare, StatementsByShape, type Values } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import { hashForLock, nextUpdatedAt } from '../../../drizzle/expressions.ts'
import { listCascades, removeDependent } from '../../outbox/cascades.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import { getOriginValues, type Recorders, recordChange } from '../../outbox/recorder.ts'
import type { ResourceDefinition } from '../definition.ts'
import type { RowUpdate, Stores, UnreadTarget } from '../resource.ts'
import type { Row, RowStore } from '../store.ts'
import { buildSearchText } from './case-folding.ts'
import { getColumn } from './conditions.ts'
import { createConstraintErrors, findConstrainedColumns, hasExclusion } from './constraint-errors.ts'
import type { RowChange } from './row-change.ts'
import { createIsSameIn } from './same-values.ts'
import { getKeyColumns } from './table-facts.ts'
import { createRowsWriter } from './write-rows.ts'

/**
 * Makes the writes to a table with an exclusion constraint wait for each other, until the transaction ends. PostgreSQL
 * inserts a row before it looks for others that it excludes, so that concurrent writes deadlock: of eight for one range,
 * some failed after four attempts.
 */
const lockWrites = prepare((db) =>
  db.execute(sql`select pg_advisory_xact_lock(${hashForLock(sql.placeholder('table'), 0)})`),
)

const toPlaceholders = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, sql.placeholder(name)]))

const toFormer = (name: string) => `former_${name}`

function buildPrevious(names: readonly string[]): SQL {
  const parts = names.map((name) => ({
    key: sql.raw(`'${name}'`),
    value: sql.identifier(name),
    former: sql.identifier(toFormer(name)),
  }))
  const [first] = parts
  if (!first) return sql`'{}'::json`
  if (parts.length === 1) return sql`json_build_object(${first.key}, ${first.former})`
  const objects = parts.map(
    ({ key, value, former }) =>
      sql`case when ${value} is distinct from ${former} then jsonb_build_object(${key}, ${former}) else '{}'::jsonb end`,
  )
  return sql`(${sql.join(objects, sql` || `)})::json`
}

/**
 * @param recorders records the changes; without, no events are written
 * @param collections the names of all collections by those of their tables, for conflicts
 */
export function createStores(
  resource: Pick<ResourceDefinition, 'table' | 'schemas' | 'search' | 'constraints'> & {
    parent?: { member: string }
  },
  recorders: Recorders = new Map(),
  collections: ReadonlyMap<string, string> = new Map(),
): Stores {
  const { table, search, parent } = resource
  const recorder = recorders.get(getTableName(table))
  const columns: Record<string, PgColumn> = getTableColumns(table)
  const { search: _, ...allColumns } = columns
  const columnNames = Object.keys(columns).sort()
  const constrainedColumns = findConstrainedColumns(resource)
  const keyColumns = getKeyColumns(table)
  const toApiError = createConstraintErrors(resource, parent?.member, collections)
  const lockedTable = hasExclusion(resource) ? getTableName(table) : undefined
  const statements = new StatementsByShape()
  const isSameIn = createIsSameIn(columns)
  const cascades = listCascades(recorders, table)

  /**
   * Returns the columns among the values, and the options of a statement that sets them and waits for no lock on its row.
   * It is batched if it can wait for no other transaction either: the statements behind it would time out with it.
   */
  const readNames = (values: Values) => {
    const names: string[] = []
    let canBatch = true
    for (const name of columnNames) {
      if (values[name] === undefined) continue
      names.push(name)
      if (constrainedColumns.has(name)) canBatch = false
    }
    return { names, options: { canBatch } }
  }

  const lockTable = async (connection: Connection): Promise<void> => {
    if (lockedTable !== undefined) await lockWrites(connection, { table: lockedTable })
  }

  const getShownNames = (names: readonly string[]) =>
    names.filter((name) => recorder && Object.hasOwn(recorder.columns, name))

  const toNextVersion = () => ({
    revision: sql`${table.revision} + 1`,
    updated_at: nextUpdatedAt(table),
  })

  const buildUpdate = (db: Connection, names: readonly string[]) =>
    db.update(table).set({ ...toPlaceholders(names), ...toNextVersion() })

  /** Changes rows, and resolves to them. */
  const runAll = async (
    connection: Connection,
    origin: ChangeOrigin,
    { kind, shape, values, build, returning = allColumns, options }: RowChange,
  ): Promise<Row[]> => {
    const buildChange = (db: Connection) => {
      const { change, ...former } = build(db)
      return db.execute(
        recorder
          ? recordChange(recorder, kind, change, { returning, ...former })
          : change.returning(returning),
      )
    }
    try {
      const statement = statements.get<Row>(`${kind}|${shape}`, buildChange, options)
      return await statement(connection, Object.assign({}, values, getOriginValues(origin)))
    } catch (error) {
      throw toApiError(error)
    }
  }

  /** Changes a row. Resolves to it, or to undefined if there is none. */
  const run = async (connection: Connection, origin: ChangeOrigin, change: RowChange) => {
    const [row] = await runAll(connection, origin, change)
    return row
  }

  const getSearchColumn = (row: Values) =>
    'search' in columns ? { search: buildSearchText(row, search) } : undefined

  /** Returns the values that an update sets, and the former ones that its event has; undefined if no value differs. */
  const findDifference = ({ current, next }: RowUpdate) => {
    const values: Record<string, unknown> = {}
    let isChanged = false
    for (const name of columnNames) {
      if (!(name in next) || isSameIn(name, next[name], current[name])) continue
      values[name] = next[name]
      isChanged = true
    }
    if (!isChanged) return
    if (search.some((name) => name in values)) {
      Object.assign(values, getSearchColumn(Object.assign({}, current, values)))
    }
    const { names } = readNames(values)
    const previous: Record<string, unknown> = {}
    for (const name of getShownNames(names)) previous[name] = current[name]
    return { values, names, previous }
  }

  /** The row with the revision that was read: after a concurrent update, no row matches. */
  const isCurrent = and(
    eq(table.id, sql.placeholder('current_id')),
    eq(table.revision, sql.placeholder('current_revision')),
  )
  const toCurrentValues = ({ id, revision }: Row) => ({ current_id: id, current_revision: revision })

  const store = (connection: Connection, origin: ChangeOrigin): RowStore<Row> => ({
    connection,
    recorders,
    origin,

    async insert(fields) {
      await lockTable(connection)
      const values: Values = Object.assign({}, fields, getSearchColumn(fields))
      const { names, options } = readNames(values)
      const row = await run(connection, origin, {
        kind: 'created',
        shape: `${names}`,
        values,
        build: (db) => ({ change: db.insert(table).values(toPlaceholders(names)) }),
        options,
      })
      if (!row) throw new Error('An insert returned no row')
      return row
    },

    async update(current, fields) {
      const difference = findDifference({ current, next: fields })
      if (!difference) return current
      await lockTable(connection)
      const { values, names, previous } = difference
      const row = await run(connection, origin, {
        kind: 'updated',
        shape: `${names}`,
        values: { ...values, ...toCurrentValues(current), previous: JSON.stringify(previous) },
        build: (db) => ({
          change: buildUpdate(db, names).where(isCurrent),
          previous: sql`${sql.placeholder('previous')}::json`,
        }),
      })
      if (!row) throw new Error('The row has changed since it was locked')
      return row
    },

    async remove(current) {
      await removeDependent({ connection, recorders, origin }, cascades, current.id).catch((error) => {
        throw toApiError(error)
      })
      await run(connection, origin, {
        kind: 'deleted',
        shape: '',
        values: toCurrentValues(current),
        build: (db) => ({ change: db.delete(table).where(isCurrent) }),
      })
    },
  })

  const updateUnread: Stores['updateUnread'] = (
    connection,
    { id, parent: parentId, buildAllowed, actor, origin }: UnreadTarget,
    values,
  ) => {
    const { names, options } = readNames(values)
    const build = (db: Connection) => {
      const set = names.map((name) => [name, getColumn(columns, name)] as const)
      const differs = set.map(([name, column]) => sql`${column} is distinct from ${sql.placeholder(name)}`)
      // `old` has the former values, which PostgreSQL itself returns only from version 18 on. A row that is locked is
      // skipped: after the other transaction, the revisions would differ, no row be updated, and the write read the row.
      const old = db
        .select({ ...Object.fromEntries(set), id: table.id, revision: table.revision })
        .from(table)
        .where(
          and(
            // Columns to set have placeholders of their own names.
            eq(table.id, sql.placeholder('target_id')),
            parent && eq(getColumn(columns, parent.member), sql.placeholder('target_parent')),
            buildAllowed(),
            or(...differs),
          ),
        )
        .for(names.some((name) => keyColumns.has(name)) ? 'update' : 'no key update', { skipLocked: true })
        .as('old')
      const shown = getShownNames(names)
      return {
        change: buildUpdate(db, names)
          .from(old)
          .where(and(eq(table.id, old.id), eq(table.revision, old.revision))),
        former: Object.fromEntries(
          shown.map((name) => [toFormer(name), sql`${sql.identifier('old')}.${sql.identifier(name)}`]),
        ),
        previous: buildPrevious(shown),
      }
    }
    return run(connection, origin, {
      kind: 'updated',
      shape: `unread|${actor.role}|${names}`,
      values: { target_id: id, target_parent: parentId, caller: actor.userId, ...values },
      build,
      options,
    })
  }

  const parts = { table, columns, columnNames, constrainedColumns, allColumns, runAll, readNames, lockTable }
  const rows = createRowsWriter({ ...parts, findDifference, getSearchColumn, toNextVersion, store })
  return { store, updateUnread, lockTable, ...rows }
}
