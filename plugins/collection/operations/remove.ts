/** DELETE on a member: removes a resource. */
import { getRule } from '../../access/rules.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import type { Row } from '../store.ts'
import { findRow, type OperationContext } from './context.ts'
import { openStore } from './open-store.ts'
import { PLAIN_WRITE, type WriteOperation, type WritePlan } from './write-plan.ts'

export function createRemoveOperation(context: OperationContext): WriteOperation {
  const { builder, options, resource } = context
  const { access, actions = {} } = resource

  return {
    mayRemove: true,

    plan(call): WritePlan<Row> {
      const { address, request } = call
      const { actor } = address
      call.check()
      const checkPrecondition = readPrecondition(call.preconditions, options.requireIfMatch, (row: Row) =>
        builder.getTag(request, row),
      )
      return Object.assign({}, PLAIN_WRITE, {
        prefix: '',

        find: (connection, isLocking, created) =>
          findRow(
            context,
            connection,
            address,
            getRule(access, 'remove', actor),
            isLocking ? 'update' : undefined,
            created,
          ),

        /** Checks preconditions (428, 412); `DELETE ... RETURNING` records the event too; references and state (409). */
        async write(connection, current) {
          checkPrecondition?.(current)
          const store = openStore(resource, connection, actor, request)
          await (actions.remove ? actions.remove(store, current, actor) : store.remove(current))
          return { status: 204 }
        },
      } satisfies Pick<WritePlan<Row>, 'prefix' | 'find' | 'write'>)
    },
  }
}
