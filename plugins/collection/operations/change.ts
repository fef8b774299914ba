/** PUT and PATCH on a member: replace a resource, or change the fields that the body names (RFC 7396). */
import type { Connection } from '../../../drizzle/client/types.ts'
import { getRule } from '../../access/index.ts'
import { apiError } from '../../errors/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getOrigin } from '../../outbox/origin.ts'
import type { Change, Prepared, Row } from '../definition.ts'
import { createBodyReader } from '../request/body.ts'
import { sendWritten } from '../response/response-builder.ts'
import { StaleRowError } from '../sql/write.ts'
import { checkTransitions, createComputeChange, findSettableColumns } from './compute-change.ts'
import { createTools, findRow, type OperationContext, type WriteHandler } from './context.ts'
import { createReferences } from './references.ts'

type PreparedColumns = Prepared<Row, Row> | undefined

export function createChangeHandler(context: OperationContext, mode: 'replace' | 'update'): WriteHandler {
  const { app, addresses, builder, options, resource, toSentError } = context
  const { database, idempotency } = app
  const { representation, requireIfMatch } = options
  const { access, actions = {}, bearerOnly = false, parent, stores } = resource
  const references = createReferences(resource)
  const bodyReader = createBodyReader(resource, representation, mode)
  const computeChange = createComputeChange(resource, mode, bodyReader)
  const settable = findSettableColumns(resource)

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const address = addresses.read(request)
    const { actor, id, parent: parentId } = address
    // PUT needs no key: sent twice, it has the same effect.
    const path = `/api/v${representation.version}${addresses.getPath(parentId)}/${id}`
    const key = mode === 'update' ? idempotency.readKey(request, actor, path, request.body) : undefined

    // 2. What Fastify has validated: body an object (400), no query string (400), the fields (422) with ids that differ
    // from the path, the ids in the path (404).
    const ids = parent ? { id, [parent.member]: parentId } : { id }
    const { fields, prefix } = bodyReader.read(request, { ids })

    const rule = getRule(access, mode, actor)
    const checkPrecondition = readPrecondition(request, requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )
    // More than have changed, perhaps: the row is not known yet.
    const open = references.findOpen(fields, Object.keys(fields), actor)

    /** Checks the caller (401), reads the row (404) and checks access to it (403). */
    const find = (connection: Connection, isLocking: boolean) =>
      findRow(context, connection, address, rule, isLocking ? 'no key update' : undefined)

    /** Computes the change (422); checks the resource's own rule (403), preconditions (428, 412) and states (409). */
    const check = (current: Row): Change<Row> => {
      const change = computeChange(current, fields)
      actions.guard?.(current, change, actor)
      checkPrecondition?.(current)
      checkTransitions(resource, current, change.next)
      return change
    }

    const { prepare } = actions
    const prepareColumns =
      prepare &&
      (async (current: Row) => {
        const seen = { current, change: check(current) }
        return prepare(fields, actor, createTools(app, request, reply, actor), seen)
      })

    /** Checks the row that was found, and references (422); writes the columns that differ: `UPDATE ... RETURNING`. */
    const update = async (connection: Connection, current: Row, prepared: PreparedColumns): Promise<Row> => {
      const change = check(current)
      if (prepared?.stillApplies && !prepared.stillApplies(current, change)) {
        const message = 'Another request changed the resource in the meantime; try again'
        throw apiError('RESOURCE_CONFLICT', { message })
      }
      if (open.length > 0) {
        await references.check(connection, references.findOpen(change.next, change.changed, actor), actor)
      }
      const store = stores.store(connection, getOrigin(actor, request.id))
      const next = prepared ? { ...change.next, ...prepared.columns } : change.next
      return actions.change
        ? actions.change(store, current, { next, changed: change.changed }, actor)
        : store.update(current, next)
    }

    const respond = (row: Row) =>
      builder.buildResponse(request, reply, { status: 200, row, actor, path: null })

    /** Writes the row in the first way whose condition holds. */
    const write = async () => {
      // 3. With an Idempotency-Key, once: the change and the stored response commit together.
      if (key) {
        return idempotency.once(key, {
          find,
          prepare: prepareColumns,
          async write(tx, current: Row, columns: PreparedColumns) {
            const changed = await update(tx, current, columns)
            return { ...respond(changed), isUnchanged: changed.revision === current.revision }
          },
        })
      }

      // 4. A single UPDATE, if SQL alone can check access and which values differ. It changes no row that does not exist,
      // is not the caller's, is locked, or has these values: the other ways find out which.
      const names = Object.keys(fields)
      const isUnread = mode === 'update' && !checkPrecondition && !bearerOnly && rule !== false
      if (isUnread && names.length > 0 && names.every((name) => settable.has(name))) {
        const target = { id, parent: parentId, rule, actor, origin: getOrigin(actor, request.id) }
        const row = await stores.updateUnread(database, target, fields)
        if (row) return respond(row)
      }

      const prepared = prepareColumns && (await prepareColumns(await find(database, false)))

      // 5. Read and UPDATE without a lock, if the write is one statement: it updates only the revision that was read.
      if (!actions.change && !bearerOnly && open.length === 0) {
        try {
          return respond(await update(database, await find(database, false), prepared))
        } catch (error) {
          if (!(error instanceof StaleRowError)) throw error
        }
      }

      // 6. Otherwise lock the row and write in one transaction.
      const row = await database.transaction(async (tx) => update(tx, await find(tx, true), prepared))
      return respond(row)
    }

    const response = await write().catch((error) => {
      throw toSentError(error, prefix)
    })
    return sendWritten(request, reply, actor, response)
  }
}
