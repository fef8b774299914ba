/** DELETE on a member: removes a resource. */
import { getRule } from '../../access/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { checkRequest } from '../../validation/index.ts'
import type { Handler, Row } from '../definition.ts'
import { readAddress } from '../request/resource-address.ts'
import { findRow, type OperationContext } from './context.ts'
import { openStore } from './open-store.ts'

export function createRemoveHandler(context: OperationContext): Handler {
  const { app, builder, options, resource, toSentError } = context
  const { access, actions = {} } = resource

  return async (request, reply) => {
    // 1. Caller (401), no query string (400), the ids in the path (404).
    const address = readAddress(resource, request)
    const { actor } = address
    checkRequest(request)
    const checkPrecondition = readPrecondition(request, options.requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )

    await app.database
      .transaction(async (tx) => {
        // 2. The caller (401); the row, locked (404), and access to it (403).
        const current = await findRow(context, tx, address, getRule(access, 'remove', actor), 'update')
        // 3. Preconditions (428, 412).
        checkPrecondition?.(current)
        // 4. `DELETE ... RETURNING`, which records the event too; references and state (409).
        const store = openStore(resource, tx, actor, request.id)
        await (actions.remove ? actions.remove(store, current, actor) : store.remove(current))
      })
      .catch((error) => {
        throw toSentError(error, '')
      })
    app.outbox.publish()
    return reply.code(204).header('cache-control', 'no-store').send()
  }
}
