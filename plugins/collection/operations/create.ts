/** POST on a collection: creates a resource. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { newId } from '../../../lib/ids.ts'
import { allows, getRule } from '../../access/index.ts'
import { lockCaller } from '../../auth/lock-caller.ts'
import { apiError } from '../../errors/index.ts'
import { getOrigin } from '../../outbox/origin.ts'
import type { Prepared, Row } from '../definition.ts'
import { createBodyReader } from '../request/body.ts'
import { createNotFound } from '../request/resource-address.ts'
import { sendWritten } from '../response/response-builder.ts'
import { createTools, type OperationContext, type WriteHandler } from './context.ts'
import { createReferences } from './references.ts'

type PreparedColumns = Prepared<Row, Row> | undefined

export function createCreateHandler(context: OperationContext): WriteHandler {
  const { app, addresses, builder, options, resource, toSentError } = context
  const { database, idempotency, refusal } = app
  const { representation } = options
  const { access, actions = {}, bearerOnly = false, parent, stores } = resource
  const references = createReferences(resource)
  const bodyReader = createBodyReader(resource, representation, 'create')

  /** Returns the error for a row that the caller may not create: 403; 404 if the parent does not exist. */
  const refuseNew = async (connection: Connection, parentId: string | undefined): Promise<Error> => {
    if (!parent || parentId === undefined) return apiError('FORBIDDEN')
    const found = await parent.to.select.one(connection, parentId, { fields: ['id'] })
    const createParentNotFound = () => createNotFound(parent.to, parentId)
    return found ? refusal(createParentNotFound) : createParentNotFound()
  }

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const { actor, parent: parentId } = addresses.read(request)
    const path = addresses.getPath(parentId)
    const key = idempotency.readKey(request, actor, `/api/v${representation.version}${path}`, request.body)

    // 2. What Fastify has validated: body an object (400), no query string (400), the fields (422) with what this caller
    // may not set, the id in the path (404). The fields have their defaults.
    const { fields, prefix } = bodyReader.read(request, { withheld: resource.withheld?.(actor) })
    const id = newId()
    const values: Partial<Row> = { ...resource.defaults?.(actor), ...fields, id, revision: 1 }
    if (parent) values[parent.member] = parentId

    // References that only the row itself can permit.
    const openParent = references.findOpenParent(parentId, actor)
    const open = references.findOpen(fields, Object.keys(fields), actor)

    /** Checks the caller (401) and the parent (403, 404). */
    const admit = async (connection: Connection, isLocking: boolean): Promise<void> => {
      if (bearerOnly && isLocking) await lockCaller(connection, actor)
      if (!openParent || (await references.isReadable(connection, openParent, actor))) return
      throw await refuseNew(connection, parentId)
    }

    const { prepare } = actions
    const prepareColumns = prepare && (() => prepare(fields, actor, createTools(app, request, reply, actor)))

    /** Checks references (422) and inserts the row: `INSERT ... RETURNING`, which records the event too. */
    const insert = async (connection: Connection, prepared: PreparedColumns): Promise<Row> => {
      await references.check(connection, open, actor)
      const store = stores.store(connection, getOrigin(actor, request.id))
      const complete = prepared ? { ...values, ...prepared.columns } : values
      return actions.create ? actions.create(store, id, complete, actor) : store.insert(complete)
    }

    const respond = (row: Row) =>
      builder.buildResponse(request, reply, { status: 201, row, actor, path: `${path}/${row.id}` })

    const write = async () => {
      // 3. The access rule of the new row (403).
      if (!allows(getRule(access, 'create', actor), values, actor)) throw await refuseNew(database, parentId)

      // 4. With an Idempotency-Key, once: the row and the stored response commit together.
      if (key) {
        return idempotency.once(key, {
          find: admit,
          prepare: prepareColumns,
          write: async (tx, _, columns: PreparedColumns) => respond(await insert(tx, columns)),
        })
      }

      let prepared: PreparedColumns
      if (prepareColumns) {
        await admit(database, false)
        prepared = await prepareColumns()
      }

      // 5. One statement, if nothing is checked or written with it.
      const isOneStatement = !actions.create && !bearerOnly && !openParent && open.length === 0
      if (isOneStatement) return respond(await insert(database, prepared))

      // 6. Otherwise several statements, in one transaction.
      const row = await database.transaction(async (tx) => {
        await admit(tx, true)
        return insert(tx, prepared)
      })
      return respond(row)
    }

    const response = await write().catch((error) => {
      throw toSentError(error, prefix)
    })
    return sendWritten(request, reply, actor, response)
  }
}
