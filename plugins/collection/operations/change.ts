/** PUT and PATCH on a member: replace a resource, or change the fields that the body names (RFC 7396). */
import type { Connection } from '../../../drizzle/client/types.ts'
import { getRule } from '../../access/index.ts'
import { apiError } from '../../errors/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getOrigin } from '../../outbox/origin.ts'
import type { Change, Row } from '../definition.ts'
import { createBodyReader } from '../request/body.ts'
import { readAddress } from '../request/resource-address.ts'
import { sendWritten } from '../response/response-builder.ts'
import { StaleRowError } from '../sql/write.ts'
import { checkTransitions, createComputeChange, findSettableColumns } from './compute-change.ts'
import {
  createTools,
  findRow,
  type OperationContext,
  type PreparedColumns,
  type WriteHandler,
} from './context.ts'
import { openStore } from './open-store.ts'
import { checkReferences, findOpenReferences } from './references.ts'

export function createChangeHandler(context: OperationContext, mode: 'replace' | 'update'): WriteHandler {
  const { app, bodyReferences, builder, options, resource, toSentError } = context
  const { database, idempotency } = app
  const { representation, requireIfMatch } = options
  const { access, actions = {}, bearerOnly = false, parent, stores } = resource
  const bodyReader = createBodyReader(resource, representation, mode)
  const computeChange = createComputeChange(resource, mode, bodyReader)
  const settable = findSettableColumns(resource)

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const address = readAddress(resource, request)
    const { actor, id, parent: parentId } = address
    // PUT needs no key: sent twice, it has the same effect.
    const path = `/api/v${representation.version}${address.path}/${id}`
    const key = mode === 'update' ? idempotency.readKey(request, actor, path, request.body) : undefined

    // 2. What Fastify has validated: body an object (400), no query string (400), the fields (422) with ids that differ
    // from the path, the ids in the path (404).
    const ids = parent ? { id, [parent.member]: parentId } : { id }
    const { fields, prefix } = bodyReader.read(request, { ids })
    const names = Object.keys(fields)

    const rule = getRule(access, mode, actor)
    const checkPrecondition = readPrecondition(request, requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )
    // More than have changed, perhaps: the row is not known yet.
    const open = bodyReferences.length > 0 ? findOpenReferences(bodyReferences, fields, names, actor) : []

    /** Checks the caller (401), reads the row (404) and checks access to it (403). */
    const find = (connection: Connection, isLocking: boolean) =>
      findRow(context, connection, address, rule, isLocking ? 'no key update' : undefined)

    /** Computes the change (422); checks the resource's own rule (403), preconditions (428, 412) and states (409). */
    const check = async (connection: Connection, current: Row): Promise<Change<Row>> => {
      const change = computeChange(current, fields)
      await actions.guard?.(current, change, actor, connection)
      checkPrecondition?.(current)
      checkTransitions(resource, current, change.next)
      return change
    }

    const { prepare } = actions
    const prepareColumns =
      prepare &&
      (async (current: Row) => {
        const seen = { current, change: await check(database, current) }
        return prepare(fields, actor, createTools(app, request, reply, actor), seen)
      })

    /** Checks the row that was found, and references (422); writes the columns that differ: `UPDATE ... RETURNING`. */
    const update = async (connection: Connection, current: Row, prepared: PreparedColumns): Promise<Row> => {
      const change = await check(connection, current)
      if (prepared?.stillApplies && !prepared.stillApplies(current, change)) {
        const message = 'Another request changed the resource in the meantime; try again'
        throw apiError('RESOURCE_CONFLICT', { message })
      }
      if (open.length > 0) {
        const changed = findOpenReferences(bodyReferences, change.next, change.changed, actor)
        await checkReferences(connection, changed, actor)
      }
      const store = openStore(resource, connection, actor, request.id)
      const next = prepared ? { ...change.next, ...prepared.columns } : change.next
      return actions.change
        ? actions.change(store, current, { next, changed: change.changed }, actor)
        : store.update(current, next)
    }

    const respond = (row: Row) =>
      builder.buildResponse(request, reply, { status: 200, row, actor, path: null })

    /** 3. Without an Idempotency-Key, writes the row in the first way whose condition holds. */
    const write = async (): Promise<Row> => {
      // A single UPDATE, if SQL alone can check access and which values differ. It changes no row that does not exist,
      // is not the caller's, is locked, or has these values: the other ways find out which.
      const isUnread = mode === 'update' && !checkPrecondition && !bearerOnly && rule !== false
      if (isUnread && names.length > 0 && names.every((name) => settable.has(name))) {
        const target = { id, parent: parentId, rule, actor, origin: getOrigin(actor, request.id) }
        const row = await stores.updateUnread(database, target, fields)
        if (row) return row
      }

      const prepared = prepareColumns && (await prepareColumns(await find(database, false)))

      // Read and UPDATE without a lock, if the write is one statement: it updates only the revision that was read. A guard
      // may read other rows.
      if (!actions.change && !actions.guard && !resource.hasExclusion && !bearerOnly && open.length === 0) {
        try {
          return await update(database, await find(database, false), prepared)
        } catch (error) {
          if (!(error instanceof StaleRowError)) throw error
        }
      }

      // Otherwise lock the row and write in one transaction.
      return database.transaction(async (tx) => update(tx, await find(tx, true), prepared))
    }

    try {
      // 4. The response. With an Idempotency-Key, once: the change and the stored response commit together.
      const response = key
        ? await idempotency.once(key, {
            find,
            prepare: prepareColumns,
            async write(tx, current: Row, columns: PreparedColumns) {
              const changed = await update(tx, current, columns)
              return { ...respond(changed), isUnchanged: changed.revision === current.revision }
            },
          })
        : respond(await write())
      return await sendWritten(request, reply, actor, response)
    } catch (error) {
      throw toSentError(error, prefix)
    }
  }
}
