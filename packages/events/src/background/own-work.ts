/** What the work, jobs and consumers of a project have in common: their names, and what they work with. */
import type { Connection, Database } from '@resource-api/database'
import {
  createEnqueue,
  createStores,
  type Enqueue,
  type Mailer,
  type Recorders,
  type ResourceDefinition,
  type Row,
  type RowStore,
  type Stores,
  SYSTEM_ORIGIN,
} from '@resource-api/resources/internal'
import type { Queue } from '@resource-api/work'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'

export interface OwnContext {
  /** The primary database. */
  database: Database
  log: FastifyBaseLogger
  /** The values of the project's own settings. */
  settings: FastifyInstance['settings']
  /** Aborted at a shutdown, after the timeout, and when another process may take over. */
  signal: AbortSignal
  /**
   * Returns the store that writes rows of a resource, with an event for each change.
   * @param connection a transaction. Default: each change is one of its own
   */
  getStore(resource: ResourceDefinition, connection?: Connection): RowStore<Row>
  /** Enqueues mails, in a transaction or by themselves; undefined if no mails are sent. */
  mail: Pick<Mailer, 'enqueue'> | undefined
  /** Enqueues work of the project, in a transaction or with `database`, as `store.enqueue` of a request does. */
  enqueue(connection: Connection, ...work: Parameters<Enqueue>): Promise<boolean>
}

/** What the work of a process shares. */
export interface WorkOptions {
  database: Database
  log: FastifyBaseLogger
  recorders: Recorders
  settings: OwnContext['settings']
  mail: OwnContext['mail']
  queue: Queue
  /** Called after work that may have recorded events or enqueued mails. */
  publish(): void
}

/** Returns what the work of an app shares. */
export const getWorkOptions = ({
  database,
  log,
  mail,
  outbox,
  settings,
  work,
}: FastifyInstance): WorkOptions => ({
  ...{ database, log, mail, settings, ...outbox },
  queue: work,
})

/** Creates the function that runs work with its context. */
export function createWorkRunner({
  database,
  recorders,
  settings,
  mail,
  queue,
  publish,
}: Omit<WorkOptions, 'log'>) {
  const stores = new Map<ResourceDefinition, Stores>()

  return async <T>(
    log: FastifyBaseLogger,
    signal: AbortSignal,
    work: (context: OwnContext) => Promise<T>,
  ): Promise<T> => {
    let mayHaveWritten = false
    const getStore: OwnContext['getStore'] = (resource, connection = database) => {
      mayHaveWritten = true
      const known = stores.get(resource) ?? createStores(resource, recorders)
      stores.set(resource, known)
      return known.store(connection, SYSTEM_ORIGIN)
    }
    const enqueueMail: Mailer['enqueue'] = async (connection, sent) => {
      mayHaveWritten = true
      await mail?.enqueue(connection, sent)
    }
    const enqueue: OwnContext['enqueue'] = (connection, ...given) => {
      mayHaveWritten = true
      return createEnqueue(queue, connection)(...given)
    }
    try {
      const mails = mail && { enqueue: enqueueMail }
      return await work({ database, log, settings, signal, getStore, mail: mails, enqueue })
    } finally {
      if (mayHaveWritten) publish()
    }
  }
}

const NAME = /^[a-z][a-z0-9-]{0,39}$/

/** @throws Error unless work, a job or a consumer can have the name, which is also a label of metrics */
export function checkName(what: string, name: string): void {
  if (!NAME.test(name))
    throw new Error(
      `${what} "${name}": a name has up to 40 lowercase letters, digits and hyphens, and begins with a letter`,
    )
}

/** @throws Error if two have the same name */
export function checkUnique(what: string, listed: readonly { name: string }[]): void {
  const names = listed.map(({ name }) => name)
  const repeated = names.find((name, i) => names.indexOf(name) !== i)
  if (repeated !== undefined) throw new Error(`Two ${what} have the name "${repeated}"`)
}
