/** POST on a member's own operation, which its definition declares: `POST /orders/{id}/refunds`. */
import { Type } from '@sinclair/typebox'
import type { Connection } from '../../../drizzle/client/types.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { checkRequest } from '../../validation/index.ts'
import type { OwnOperation, Row } from '../definition.ts'
import { createDefaults } from '../request/body.ts'
import { readAddress } from '../request/resource-address.ts'
import { sendWritten } from '../response/response-builder.ts'
import { findRow, type OperationContext, type WriteHandler } from './context.ts'
import { openStore } from './open-store.ts'

/** A body without fields; it may be absent. */
export const NO_FIELDS = Type.Object({})

export function createOwnHandler(
  context: OperationContext,
  name: string,
  own: OwnOperation<Row>,
): WriteHandler {
  const { app, builder, options, resource, toSentError } = context
  const { database, idempotency } = app
  const { representation, requireIfMatch } = options
  const { access, body: input = NO_FIELDS, response: ownResponse, run } = own
  const fillDefaults = createDefaults(input)

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const address = readAddress(resource, request)
    const { actor, id, path } = address
    const keyPath = `/api/v${representation.version}${path}/${id}/${name}`
    const key = idempotency.readKey(request, actor, keyPath, request.body)

    // 2. What Fastify has validated: body an object or absent (400), no query string (400), the fields (422), the ids in
    // the path (404).
    checkRequest(request)
    const { members, prefix } = representation.body(request.body, id)
    const fields = fillDefaults(members)
    const checkPrecondition = readPrecondition(request, requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )

    /** Checks the caller (401), reads the row (404) and checks access to it (403). */
    const rule = access[actor.role] ?? false
    const find = (connection: Connection, isLocking: boolean) =>
      findRow(context, connection, address, rule, isLocking ? 'no key update' : undefined)

    /** Checks preconditions (428, 412), and runs the operation (409, 422). */
    const write = async (tx: Connection, current: Row) => {
      checkPrecondition?.(current)
      const result = await run(openStore(resource, tx, actor, request.id), current, fields, actor)
      if (ownResponse) return builder.buildOwnResponse(reply, name, { ...result, id: String(result.id) })
      // Without a schema of its own, the operation returns the row.
      return builder.buildResponse(request, reply, { status: 201, row: result as Row, actor, path })
    }

    // 3. With an Idempotency-Key, once; otherwise lock the row and write in one transaction.
    try {
      const response = await (key
        ? idempotency.once(key, { find, write })
        : database.transaction(async (tx) => write(tx, await find(tx, true))))
      return await sendWritten(request, reply, actor, response)
    } catch (error) {
      throw toSentError(error, prefix)
    }
  }
}
