/** Writes rows: inserts, updates that increment the revision, and deletes. */
import { and, eq, sql } from 'drizzle-orm'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import { listCascades, removeDependent } from '../../outbox/cascades.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import type { Recorders } from '../../outbox/recorder.ts'
import type { Row, Store } from '../definition.ts'
import { buildSearchText } from './case-folding.ts'
import { createRowStatements, type StoredResource, toPlaceholders } from './row-statements.ts'
import { createIsSameIn } from './same-value.ts'
import { createUnreadUpdate } from './unread-update.ts'

/** The row has changed since it was read. `operations/change.ts` catches it and writes again with a lock. */
export class StaleRowError extends Error {
  override readonly name = 'StaleRowError'
}

/**
 * Creates the functions that write the rows of one resource.
 * @param recorders records the changes; without, no events are written
 */
export function createStores(resource: StoredResource, recorders: Recorders = new Map()) {
  const { table, search } = resource
  const statements = createRowStatements(resource, recorders)
  const { columns, buildUpdate, getNames, getOptions, getShownNames, run, toApiError } = statements
  const isSameIn = createIsSameIn(columns)
  const cascades = listCascades(recorders, table)

  const getSearchColumn = (row: Values) =>
    'search' in columns ? { search: buildSearchText(row, search) } : undefined

  /** The row with the revision that was read: after a concurrent update, no row matches. */
  const isCurrent = and(
    eq(table.id, sql.placeholder('current_id')),
    eq(table.revision, sql.placeholder('current_revision')),
  )
  const toCurrentValues = ({ id, revision }: Row) => ({ current_id: id, current_revision: revision })

  /** Returns the columns whose values differ from the row. */
  const getChanges = (current: Row, values: Values): Values =>
    Object.fromEntries(
      Object.entries(values).filter(
        ([name, value]) => name in columns && !isSameIn(name, value, current[name]),
      ),
    )

  const store = (connection: Connection, origin: ChangeOrigin): Store<Row> => ({
    connection,
    recorders,
    origin,

    async insert(fields) {
      const values: Values = { ...fields, ...getSearchColumn(fields) }
      const names = getNames(values)
      const row = await run(connection, origin, {
        kind: 'created',
        shape: `${names}`,
        values,
        build: (db) => ({ change: db.insert(table).values(toPlaceholders(names)) }),
        options: getOptions(names),
      })
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
      const names = getNames(values)
      const former = getShownNames(names).map((name) => [name, current[name]])
      const row = await run(connection, origin, {
        kind: 'updated',
        shape: `${names}`,
        values: {
          ...values,
          ...toCurrentValues(current),
          previous: JSON.stringify(Object.fromEntries(former)),
        },
        build: (db) => ({
          change: buildUpdate(db, names).where(isCurrent),
          previous: sql`${sql.placeholder('previous')}::json`,
        }),
      })
      if (!row) throw new StaleRowError()
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

  return { store, updateUnread: createUnreadUpdate(resource, statements) }
}

export type Stores = ReturnType<typeof createStores>
