/** DELETE on a member: removes a resource. */
import { getRule } from '../../access/rules.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import type { Row } from '../store.ts'
import { findRow, type OperationContext } from './context.ts'
import { openStore } from './open-store.ts'
import type { WriteOperation, WritePlan } from './write-plan.ts'

export function createRemoveOperation(context: OperationContext): WriteOperation {
  const { builder, options, resource } = context
  const { access, actions = {} } = resource

  return {
    mayRemove: true,

    plan(call): WritePlan<Row> {
      const { address, request } = call
      const { actor, id } = address
      const lock = { id, mode: 'update', rule: getRule(access, 'remove', actor) } as const
      call.check()
      const checkPrecondition = readPrecondition(call.preconditions, options.requireIfMatch, (row: Row) =>
        builder.getTag(request, row),
      )
      return {
        prefix: '',
        lock,

        find: (connection, isLocking) =>
          findRow(context, connection, address, lock.rule, isLocking ? lock.mode : undefined),

        /** Checks preconditions (428, 412); `DELETE ... RETURNING` records the event too; references and state (409). */
        async write(connection, current) {
          checkPrecondition?.(current)
          const store = openStore(resource, connection, actor, request)
          await (actions.remove ? actions.remove(store, current, actor) : store.remove(current))
          return { status: 204 }
        },
      }
    },
  }
}
