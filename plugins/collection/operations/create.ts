/** POST on a collection: creates a resource. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { newId } from '../../../lib/ids.ts'
import { getRule } from '../../access/rules.ts'
import { lockCaller } from '../../auth/lock-caller.ts'
import { apiError } from '../../errors/index.ts'
import { createBodyReader } from '../request/body.ts'
import { createNotFound } from '../request/resource-address.ts'
import type { Written } from '../response/response-builder.ts'
import { findConstrainedColumns } from '../sql/constraint-errors.ts'
import type { Row } from '../store.ts'
import { createTools, isPermitted, type OperationContext, type PreparedColumns } from './context.ts'
import { openStore } from './open-store.ts'
import { checkReferences, findOpenReferences, isReadable } from './references.ts'
import type { WriteOperation, WritePlan } from './write-plan.ts'

export function createCreateOperation(context: OperationContext): WriteOperation {
  const { app, bodyReferences, options, resource } = context
  const { access, actions = {}, bearerOnly = false, parent, references, stores } = resource
  const bodyReader = createBodyReader(resource, options.representation, 'create')
  const { prepare } = actions
  const constrained = findConstrainedColumns(resource)

  /** Returns the error for a row that the caller may not create: 403; 404 if the parent does not exist. */
  const refuseNew = async (connection: Connection, parentId: string | undefined): Promise<Error> => {
    if (!parent || parentId === undefined) return apiError('FORBIDDEN')
    const found = await parent.to.select.one(connection, parentId, { fields: ['id'] })
    const createParentNotFound = () => createNotFound(parent.to, parentId)
    return found ? app.refusal(createParentNotFound) : createParentNotFound()
  }

  return {
    getKeyPath: ({ path }) => path,

    plan(call): WritePlan {
      // The body: an object (400), with valid fields (422), of which none is withheld from this caller. The fields have
      // their defaults.
      const { request, reply, usedRights } = call
      const { actor, parent: parentId, path } = call.address
      const { fields, prefix } = bodyReader.read(call, { withheld: resource.withheld?.(actor) })
      const id = call.createdId ?? newId()
      const values: Partial<Row> = Object.assign({}, resource.defaults?.(actor), fields, { id, revision: 1 })
      if (parent) values[parent.member] = parentId
      const create = (call.isAlone ? actions.createAlone : undefined) ?? actions.create

      // References that only the row itself can permit.
      const [openParent] = parent ? findOpenReferences(references, values, [parent.member], actor) : []
      const open =
        bodyReferences.length > 0
          ? findOpenReferences(bodyReferences, fields, Object.keys(fields), actor)
          : []

      const buildValues = async (connection: Connection, prepared: PreparedColumns) => {
        if (open.length > 0) await checkReferences(connection, open, actor)
        usedRights?.addReferences(open)
        return prepared ? { ...values, ...prepared.columns } : values
      }
      const toWritten = (row: Row): Written => ({ status: 201, row, path })

      const isOneStatement =
        !create && !resource.hasExclusion && !bearerOnly && !openParent && open.length === 0

      const plan: WritePlan<void> = {
        prefix,
        fields,
        insertion: create ? undefined : { buildValues, toWritten },
        statement: isOneStatement
          ? {
              canWait: Object.keys(values).some((name) => constrained.has(name)),
              run: async (database, prepared) =>
                plan.write(database, await plan.find(database, false), prepared),
            }
          : undefined,

        /** Checks the caller (401), the access rule of the new row (403), and the parent (403, 404). */
        async find(connection, isLocking) {
          const scope = { rule: getRule(access, 'create', actor), actor }
          const isAllowed = await isPermitted(resource, connection, values, scope)
          if (!isAllowed) throw await refuseNew(connection, parentId)
          if (bearerOnly && isLocking) await lockCaller(connection, actor)
          // Before the rows that the action locks, as in changes.
          if (create && isLocking) await stores.lockTable(connection)
          if (openParent && !(await isReadable(connection, openParent, actor)))
            throw await refuseNew(connection, parentId)
          usedRights?.addRow(scope.rule, values)
          if (openParent) usedRights?.addReferences([openParent])
        },

        slow: prepare && {
          check: async () => undefined,
          run: () => prepare(fields, actor, createTools(app, request, reply, actor)),
        },

        /** Checks references (422) and inserts the row: `INSERT ... RETURNING`, which records the event too. */
        async write(connection, _found, prepared) {
          const complete = await buildValues(connection, prepared)
          const store = openStore(resource, connection, actor, request)
          return toWritten(await (create ? create(store, id, complete, actor) : store.insert(complete)))
        },
      }
      return plan
    },
  }
}
