/** What the jobs and consumers of a project have in common: their names, and what they work with. */
import type { Connection, Database } from '@resource-api/database'
import {
  createStores,
  type Mailer,
  type Recorders,
  type ResourceDefinition,
  type Row,
  type RowStore,
  type Stores,
  SYSTEM_ORIGIN,
} from '@resource-api/resources/internal'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'

export interface WorkContext {
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
}

/** What the work of a process shares. */
export interface WorkOptions {
  database: Database
  log: FastifyBaseLogger
  recorders: Recorders
  settings: WorkContext['settings']
  mail: WorkContext['mail']
  /** Called after work that may have recorded events or enqueued mails. */
  publish(): void
}

/** Creates the function that runs work with its context. */
export function createWorkRunner({ database, recorders, settings, mail, publish }: Omit<WorkOptions, 'log'>) {
  const stores = new Map<ResourceDefinition, Stores>()

  return async <T>(
    log: FastifyBaseLogger,
    signal: AbortSignal,
    work: (context: WorkContext) => Promise<T>,
  ): Promise<T> => {
    let mayHaveWritten = false
    const getStore: WorkContext['getStore'] = (resource, connection = database) => {
      mayHaveWritten = true
      const known = stores.get(resource) ?? createStores(resource, recorders)
      stores.set(resource, known)
      return known.store(connection, SYSTEM_ORIGIN)
    }
    const enqueue: Mailer['enqueue'] = async (connection, sent) => {
      mayHaveWritten = true
      await mail?.enqueue(connection, sent)
    }
    try {
      const context = { database, log, settings, signal, getStore, mail: mail && { enqueue } }
      return await work(context)
    } finally {
      if (mayHaveWritten) publish()
    }
  }
}

const NAME = /^[a-z][a-z0-9-]{0,39}$/

/** @throws Error unless a job or a consumer can have the name, which is also a label of metrics */
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
