/** DELETE on a member: removes a resource. */
import { getRule } from '@resource-api/api/rules'
import type { RemoveCode } from '../definition/code.ts'
import type { Row } from '../definition/store.ts'
import { findRow, type OperationContext, readRowPrecondition } from './context.ts'
import { openStore } from './open-store.ts'
import type { RowLock } from './row-locks.ts'
import type { WriteInput, WriteOperation } from './write-operation.ts'

interface Removal extends WriteInput {
  lock: RowLock
  /** Undefined without a condition. */
  checkPrecondition: ((current: Row) => void) | undefined
}

export function createRemoveOperation(
  context: OperationContext,
  { run }: RemoveCode<Row>,
): WriteOperation<Removal, Row> {
  const { resource } = context
  const { access } = resource

  return {
    mayRemove: true,

    /** No body (400). */
    read(call) {
      call.check()
      const { actor, id } = call.address
      return {
        call,
        prefix: '',
        lock: { id, mode: 'update', rule: getRule(access, 'remove', actor) },
        checkPrecondition: readRowPrecondition(context, call),
      }
    },

    getLock: ({ lock }) => lock,

    find: (connection, { call, lock }, isLocking) =>
      findRow(context, connection, call.address, lock.rule, isLocking ? lock.mode : undefined),

    /** Checks preconditions (428, 412); `DELETE ... RETURNING` records the event too; references and state (409). */
    async write(connection, writes) {
      for (const { input, found: current } of writes) {
        input.checkPrecondition?.(current)
        const store = openStore(resource, connection, input.call)
        await (run ? run({ store, current, actor: input.call.address.actor }) : store.remove(current))
      }
      return writes.map(() => ({ status: 204 }))
    },
  }
}
