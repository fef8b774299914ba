/** POST on a collection: creates a resource. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { newId } from '../../../lib/ids.ts'
import { allows, getRule } from '../../access/index.ts'
import { lockCaller } from '../../auth/lock-caller.ts'
import { apiError } from '../../errors/index.ts'
import type { Row } from '../definition.ts'
import { createBodyReader } from '../request/body.ts'
import { createNotFound, readAddress } from '../request/resource-address.ts'
import { sendWritten } from '../response/response-builder.ts'
import { createTools, type OperationContext, type PreparedColumns, type WriteHandler } from './context.ts'
import { openStore } from './open-store.ts'
import { checkReferences, findOpenReferences, isReadable } from './references.ts'

export function createCreateHandler(context: OperationContext): WriteHandler {
  const { app, bodyReferences, builder, options, resource, toSentError } = context
  const { database, idempotency, refusal } = app
  const { representation } = options
  const { access, actions = {}, bearerOnly = false, parent, references } = resource
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
    const { actor, parent: parentId, path } = readAddress(resource, request)
    const key = idempotency.readKey(request, actor, `/api/v${representation.version}${path}`, request.body)

    // 2. What Fastify has validated: body an object (400), no query string (400), the fields (422) with what this caller
    // may not set, the id in the path (404). The fields have their defaults.
    const { fields, prefix } = bodyReader.read(request, { withheld: resource.withheld?.(actor) })
    const id = newId()
    const values: Partial<Row> = Object.assign({}, resource.defaults?.(actor), fields, { id, revision: 1 })
    if (parent) values[parent.member] = parentId

    // References that only the row itself can permit.
    const [openParent] = parent ? findOpenReferences(references, values, [parent.member], actor) : []
    const open =
      bodyReferences.length > 0 ? findOpenReferences(bodyReferences, fields, Object.keys(fields), actor) : []

    /** Checks the caller (401) and the parent (403, 404). */
    const admit = async (connection: Connection, isLocking: boolean): Promise<void> => {
      if (bearerOnly && isLocking) await lockCaller(connection, actor)
      if (!openParent || (await isReadable(connection, openParent, actor))) return
      throw await refuseNew(connection, parentId)
    }

    const { prepare } = actions
    const prepareColumns = prepare && (() => prepare(fields, actor, createTools(app, request, reply, actor)))

    /** Checks references (422) and inserts the row: `INSERT ... RETURNING`, which records the event too. */
    const insert = async (connection: Connection, prepared: PreparedColumns): Promise<Row> => {
      if (open.length > 0) await checkReferences(connection, open, actor)
      const store = openStore(resource, connection, actor, request.id)
      const complete = prepared ? { ...values, ...prepared.columns } : values
      return actions.create ? actions.create(store, id, complete, actor) : store.insert(complete)
    }

    const respond = (row: Row) => builder.buildResponse(request, reply, { status: 201, row, actor, path })

    try {
      // 3. The access rule of the new row (403).
      if (!allows(getRule(access, 'create', actor), values, actor)) throw await refuseNew(database, parentId)

      // 4. With an Idempotency-Key, once: the row and the stored response commit together.
      if (key) {
        const response = await idempotency.once(key, {
          find: admit,
          prepare: prepareColumns,
          write: async (tx, _, columns: PreparedColumns) => respond(await insert(tx, columns)),
        })
        return await sendWritten(request, reply, actor, response)
      }

      let prepared: PreparedColumns
      if (prepareColumns) {
        await admit(database, false)
        prepared = await prepareColumns()
      }

      // 5. One statement, if nothing is checked or written with it; otherwise several, in one transaction.
      const isOneStatement =
        !actions.create && !resource.hasExclusion && !bearerOnly && !openParent && open.length === 0
      const row = isOneStatement
        ? await insert(database, prepared)
        : await database.transaction(async (tx) => {
            await admit(tx, true)
            return insert(tx, prepared)
          })
      return await sendWritten(request, reply, actor, respond(row))
    } catch (error) {
      throw toSentError(error, prefix)
    }
  }
}
