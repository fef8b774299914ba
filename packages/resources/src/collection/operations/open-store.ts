/** The store of code: rows of its own resource, and of others by their tables, in the transaction of the request. */
import type { Connection } from '@resource-api/database'
import { isTransaction } from '@resource-api/database/internal'
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { type ChangeOrigin, getOrigin } from '../../outbox/origin.ts'
import { requestsDryRun } from '../dry-run.ts'
import type { Resource } from '../resource.ts'
import type { CommitHook, OtherStore, Row, Store, StoreCall } from '../store.ts'
import { createEnqueue } from '../work.ts'

/** Returns the origin of the changes of a call. */
export const getCallOrigin = ({ address, origin, request }: StoreCall): ChangeOrigin =>
  origin ?? getOrigin(address.actor, request.id)

/** The mails of a dry run: the worker does not look for them. */
const noMail = { async enqueue() {} }

/** Creates the function of a store that returns those of other resources. */
export const createStoreFinder =
  (resources: ReadonlyMap<PgTable, Resource>, connection: Connection, call: StoreCall): Store<Row>['of'] =>
  (table) => {
    const store = resources.get(table)?.openOtherStore?.(connection, call)
    if (!store) throw new Error(`No resource is stored in the table ${getTableName(table)}`)
    // The rows of the resource are those of this table.
    return store as OtherStore<never>
  }

/** Opens the store of a resource for the code of a request. */
export function openStore(
  { resources, stores }: Resource,
  connection: Connection,
  call: StoreCall,
): Store<Row> {
  const { request } = call
  const { mail, work } = request.server
  const isDryRun = requestsDryRun(request)
  const store: Store<Row> = Object.assign(stores.store(connection, getCallOrigin(call)), {
    of: createStoreFinder(resources, connection, call),
    // Undefined in a dry run too if no mails are sent, as code depends on it.
    mail: mail && (isDryRun ? noMail : mail),
    enqueue: createEnqueue(work, connection),
    isDryRun,
    ip: request.ip,
    beforeCommit<V>(hook: CommitHook<V>, update: (former: V | undefined) => V) {
      if (!isTransaction(connection)) throw new Error('A hook before the commit needs a transaction')
      const name = getTableName(hook.table)
      connection.beforeCommit(hook, { name, run: (value: V) => hook.run(store, value) }, update)
    },
  })
  return store
}
