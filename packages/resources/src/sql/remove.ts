/** Deletes rows, with those that depend on them. */

import type { Stores } from '../definition/resource.ts'
import { listCascades, removeDependent } from '../outbox/cascades.ts'
import type { Recorders } from '../outbox/recorder.ts'
import type { StatementRunner } from './statement-runner.ts'

export function createRemoveRow(
  { table, key, isCurrent, runAll, toApiError, toCurrentValues }: StatementRunner,
  recorders: Recorders,
): Stores['removeRow'] {
  const cascades = listCascades(recorders, table)

  return async (connection, origin, current) => {
    await removeDependent(
      { connection, recorders, origin },
      cascades,
      key.split?.(current.id) ?? current.id,
    ).catch((error) => {
      throw toApiError(error, true)
    })
    await runAll(connection, origin, {
      kind: 'deleted',
      shape: '',
      count: 1,
      values: toCurrentValues(current),
      build: (db) => ({ change: db.delete(table).where(isCurrent) }),
    })
  }
}
