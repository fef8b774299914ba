/** Defines the steps that create, change and remove a row; `strategies.ts` runs them. */
import type { Connection, Database } from '../../../drizzle/client/types.ts'
import { type Actor, allows, getRule, type Verb } from '../../access/index.ts'
import { lockCaller } from '../../auth/lock-caller.ts'
import { apiError } from '../../errors/index.ts'
import type { Resource } from '../compile.ts'
import type { Row } from '../definition.ts'
import { createNotFound, type ResourceAddress } from '../request/resource-address.ts'
import type { Lock } from '../sql/select.ts'
import { createReferences } from './references.ts'
import { createSettle } from './settle.ts'
import { createUnreadUpdates } from './single-statement.ts'
import type { WriteSteps } from './strategies.ts'
import type { ChangingWrite, RemovingWrite, Write } from './types.ts'

/**
 * Returns the functions that build the steps of a resource's writes.
 * @param refusal creates the error for a row that the caller may not access: 403, or 404 with HIDE_FORBIDDEN
 */
export function createWriteSteps(
  resource: Resource,
  database: Database,
  refusal: (createNotFound: () => Error) => Error,
) {
  const { access, actions = {}, bearerOnly = false, parent, select, stores } = resource
  const getUnreadUpdate = createUnreadUpdates(resource, database)
  const settle = createSettle(resource)
  const references = createReferences(resource)

  /** @throws ApiError 401 */
  const admitCaller = async (tx: Connection, actor: Actor): Promise<void> => {
    if (bearerOnly) await lockCaller(tx, actor)
  }

  /** @throws ApiError 404, 403 */
  const findAdmitted = async (
    connection: Connection,
    write: ResourceAddress,
    verb: Verb,
    lock: Lock | undefined,
  ): Promise<Row> => {
    const row = await select.whole(connection, write.id, lock)
    if (!row || (parent && row[parent.member] !== write.parent)) throw createNotFound(resource, write.id)
    if (!allows(getRule(access, verb, write.actor), row, write.actor)) {
      throw refusal(() => createNotFound(resource, write.id))
    }
    return row
  }

  /** Returns the error for a row that the caller may not create: 403; 404 if the parent does not exist. */
  const refuseNew = async (connection: Connection, parentId: string | undefined): Promise<Error> => {
    if (!parent || parentId === undefined) return apiError('FORBIDDEN')
    const found = await parent.to.select.one(connection, parentId, { fields: ['id'] })
    const createParentNotFound = () => createNotFound(parent.to, parentId)
    return found ? refusal(createParentNotFound) : createParentNotFound()
  }

  /** @throws ApiError 403, 404 */
  const create = async (write: Write): Promise<WriteSteps<undefined>> => {
    const { id, actor, fields, keyedWrite, respond } = write
    const values: Partial<Row> = { ...resource.defaults?.(actor), ...fields, id, revision: 1 }
    if (parent) values[parent.member] = write.parent
    if (!allows(getRule(access, 'create', actor), values, actor))
      throw await refuseNew(database, write.parent)
    const { prepare, create: action } = actions
    const openParent = references.findOpenParent(write.parent, actor)
    const open = references.findOpen(fields, Object.keys(fields), actor)
    return {
      keyedWrite,
      updateUnread: undefined,
      isOneStatement: !action && !bearerOnly && !openParent && open.length === 0,
      async admit(connection, isLocking) {
        if (isLocking) await admitCaller(connection, actor)
        if (!openParent || (await references.isReadable(connection, openParent, actor))) return
        throw await refuseNew(connection, write.parent)
      },
      prepare: prepare && (() => prepare(fields, actor, write.getTools())),
      act: async (connection, _found, prepared) => {
        await references.check(connection, open, actor)
        const store = stores.store(connection, write.origin)
        const complete = prepared ? { ...values, ...prepared.columns } : values
        return action ? action(store, id, complete, actor) : store.insert(complete)
      },
      isUnchanged: () => false,
      respond,
    }
  }

  const change = (write: ChangingWrite): WriteSteps<Row> => {
    const { actor, mode, fields, keyedWrite, checkPrecondition, respond } = write
    const { prepare, change: action } = actions
    const isPlainPatch = mode === 'update' && !keyedWrite && !checkPrecondition && !bearerOnly
    // More than have changed, perhaps: the row is not known yet.
    const open = references.findOpen(fields, Object.keys(fields), actor)
    return {
      keyedWrite,
      updateUnread: isPlainPatch ? getUnreadUpdate(write, fields) : undefined,
      isOneStatement: !action && !bearerOnly && open.length === 0,
      async admit(connection, isLocking) {
        if (isLocking) await admitCaller(connection, actor)
        return findAdmitted(connection, write, mode, isLocking ? 'no key update' : undefined)
      },
      prepare:
        prepare &&
        (async (current) => {
          const settled = settle(current, write)
          return prepare(fields, actor, write.getTools(), { current, change: settled })
        }),
      act: async (connection, current, prepared) => {
        const settled = settle(current, write)
        if (prepared?.stillApplies && !prepared.stillApplies(current, settled)) {
          throw apiError('RESOURCE_CONFLICT', {
            message: 'Another request changed the resource in the meantime; try again',
          })
        }
        if (open.length > 0) {
          await references.check(connection, references.findOpen(settled.next, settled.changed, actor), actor)
        }
        const store = stores.store(connection, write.origin)
        const next = { ...settled.next, ...prepared?.columns }
        return action ? action(store, current, { ...settled, next }, actor) : store.update(current, next)
      },
      isUnchanged: (current, row) => row.revision === current.revision,
      respond,
    }
  }

  /** Removing has one strategy: it locks the row and deletes it in a transaction. */
  const remove = (write: RemovingWrite): Promise<void> =>
    database.transaction(async (tx) => {
      await admitCaller(tx, write.actor)
      const current = await findAdmitted(tx, write, 'remove', 'update')
      write.checkPrecondition?.(current)
      const store = stores.store(tx, write.origin)
      await (actions.remove ? actions.remove(store, current, write.actor) : store.remove(current))
    })

  return { create, change, remove }
}
