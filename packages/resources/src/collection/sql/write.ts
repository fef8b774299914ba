/** Creates the functions that write rows of a resource. Each statement records its changes as events. */
import type { Connection } from '@resource-api/database'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import type { Recorders } from '../../outbox/recorder.ts'
import type { Stores } from '../resource.ts'
import type { Row, RowStore } from '../store.ts'
import { createInsertRows } from './insert.ts'
import { createRemoveRow } from './remove.ts'
import { createPickChanged } from './same-values.ts'
import { createStatementRunner, type WrittenResource } from './statement-runner.ts'
import { createUpdates } from './update.ts'

/**
 * @param recorders records the changes; without, no events are written
 * @param collections the names of all collections by those of their tables, for conflicts
 */
export function createStores(
  resource: WrittenResource,
  recorders: Recorders = new Map(),
  collections: ReadonlyMap<string, string> = new Map(),
): Stores {
  const runner = createStatementRunner(resource, recorders, collections)
  const insertRows = createInsertRows(runner)
  const { changeRows, changeAtOnce } = createUpdates(runner, resource)
  const removeRow = createRemoveRow(runner, recorders)
  const pickChanged = createPickChanged(runner.columns)

  const store = (connection: Connection, origin: ChangeOrigin): RowStore<Row> => ({
    connection,
    recorders,
    origin,
    async insert(values) {
      const [row] = await insertRows(connection, origin, [values])
      if (!row) throw new Error('An insert returned no row')
      return row
    },
    insertAll: (rows) => insertRows(connection, origin, rows),
    async update(current, next) {
      const [row = current] = await changeRows(connection, origin, [
        { current, values: pickChanged(current, next) },
      ])
      return row
    },
    remove: (current) => removeRow(connection, origin, current),
  })

  return {
    ...{ store, insertRows, changeRows, removeRow, changeAtOnce, lockTable: runner.lockTable },
    toApiError: (error) => runner.toApiError(error, false),
  }
}
