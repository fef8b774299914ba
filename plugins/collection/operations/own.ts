/** POST on a member's own operation, which its definition declares: `POST /orders/{id}/refunds`. */
import { Type } from '@sinclair/typebox'
import type { Connection } from '../../../drizzle/client/types.ts'
import { lockCaller } from '../../auth/lock-caller.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getOrigin } from '../../outbox/origin.ts'
import type { OwnOperation, Row } from '../definition.ts'
import type { Handler } from '../options.ts'
import { createBodyReader, readObject } from '../request/body.ts'
import { createQueryRefusal } from '../request/query-validation.ts'
import { sendWritten } from '../response/send-written.ts'
import { ajv } from '../validator.ts'
import type { OperationContext } from './context.ts'
import { findRow } from './find-row.ts'

const NO_FIELDS = Type.Object({})

export function createOwnHandler(context: OperationContext, name: string, own: OwnOperation<Row>): Handler {
  const { app, addresses, builder, options, resource, toSentError } = context
  const { addressing, database, idempotency } = app
  const { representation, publicUrl, requireIfMatch } = options
  const { bearerOnly = false, stores } = resource
  const { access, body: input = NO_FIELDS, response: ownResponse, run } = own
  const refuseQuery = createQueryRefusal(ajv)
  const bodyReader = createBodyReader({ ajv, read: NO_FIELDS, input, mode: 'create' })
  const canBeEmpty = (input.required ?? []).length === 0

  return async (request, reply) => {
    // 1. Caller (401), body an object or absent (400), Idempotency-Key (400), no query string (400).
    const address = addresses.read(request)
    const { actor, id, parent: parentId } = address
    const sent = request.body === undefined && canBeEmpty ? {} : readObject(request.body)
    const path = `${addresses.getPath(parentId)}/${id}`
    const key = idempotency.readKey(request, actor, `/api/v${representation.version}${path}/${name}`, sent)
    if (address.hasQuery) refuseQuery(request)

    // 2. The fields: all violations together (422). Then the ids in the path (404).
    const body = representation.body(sent, resource.name, id)
    const fields = bodyReader.read(body)
    addresses.ensureUuids(id, parentId)
    const checkPrecondition = readPrecondition(request, requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )

    /** Checks the caller (401), reads the row (404) and checks access to it (403). */
    const find = async (connection: Connection, isLocking: boolean): Promise<Row> => {
      if (bearerOnly && isLocking) await lockCaller(connection, actor)
      const rule = access[actor.role] ?? false
      return findRow(context, connection, address, rule, isLocking ? 'no key update' : undefined)
    }

    /** Checks preconditions (428, 412), and runs the operation (409, 422). */
    const write = async (tx: Connection, current: Row) => {
      checkPrecondition?.(current)
      const result = await run(stores.store(tx, getOrigin(actor, request.id)), current, fields, actor)
      if (ownResponse) return builder.buildOwnResponse(reply, name, { ...result, id: String(result.id) })
      const { form } = addressing.getAddress(request.raw)
      const location = `${publicUrl ?? ''}${form}${path}`
      // Without a schema of its own, the operation returns the row.
      return builder.buildResponse(request, reply, { status: 201, row: result as Row, actor, location })
    }

    // 3. With an Idempotency-Key, once; otherwise lock the row and write in one transaction.
    const response = await (key
      ? idempotency.once(key, { find, write })
      : database.transaction(async (tx) => write(tx, await find(tx, true)))
    ).catch((error) => {
      throw toSentError(error, body.prefix)
    })
    return sendWritten(request, reply, actor, response)
  }
}
