/** POST on a member's own operation, which its definition declares: `POST /orders/{id}/refunds`. */
import { Type } from '@sinclair/typebox'
import { readPrecondition } from '../../http/preconditions.ts'
import type { OwnOperation } from '../actions.ts'
import { createDefaults } from '../request/body.ts'
import type { Row } from '../store.ts'
import { findRow, type OperationContext } from './context.ts'
import { openStore } from './open-store.ts'
import type { WriteOperation, WritePlan } from './write-plan.ts'

/** A body without fields; it may be absent. */
export const NO_FIELDS = Type.Object({})

export function createOwnOperation(
  context: OperationContext,
  name: string,
  own: OwnOperation<Row>,
): WriteOperation {
  const { builder, options, resource } = context
  const { representation, requireIfMatch } = options
  const { access, body: input = NO_FIELDS, response: ownResponse, removes = false, run } = own
  const mode = removes ? 'update' : 'no key update'
  const fillDefaults = createDefaults(input)

  return {
    getKeyPath: ({ path, id }) => `${path}/${id}/${name}`,
    mayRemove: true,

    plan(call): WritePlan<Row> {
      const { address, request } = call
      const { actor, id, path } = address
      const rule = access[actor.role] ?? false
      call.check()
      const { members, prefix } = representation.body(call.body, id)
      const fields = fillDefaults(members)
      const checkPrecondition = readPrecondition(call.preconditions, requireIfMatch, (row: Row) =>
        builder.getTag(request, row),
      )
      return {
        prefix,
        lock: { id, mode, rule },

        find: (connection, isLocking) =>
          findRow(context, connection, address, rule, isLocking ? mode : undefined),

        /** Checks preconditions (428, 412), and runs the operation (409, 422). */
        async write(connection, current) {
          checkPrecondition?.(current)
          // The operation has the connection, and may write users with it.
          request.mayChangeCredentials = true
          const result = await run(openStore(resource, connection, actor, request), current, fields, actor)
          if (ownResponse)
            return { status: 201, operation: name, members: { ...result, id: String(result.id) } }
          // Without a schema of its own, the operation returns the row.
          return { status: 201, row: result as Row, path }
        },
      }
    },
  }
}
