/** What the code of routes writes with, and the rows that it writes. */
import type { ChangeContext } from '../outbox/recorder.ts'
import type { Mailer } from './mailer.ts'
import type { ResourceTable } from './resource-table.ts'
import type { Enqueue } from './work.ts'

/** A row as the engine handles it: the columns of its table by their names. Timestamps are PostgreSQL's text. */
export type Row = { id: string; revision: number; updated_at: string } & Record<string, unknown>

/** Returns the value of a text or uuid column. */
export function getText(row: Readonly<Record<string, unknown>>, name: string): string {
  const value = row[name]
  if (typeof value !== 'string') throw new Error(`The column ${name} has no text`)
  return value
}

/**
 * Writes rows of the resource in the transaction of the request, with an event for each change. `changeRows` of the
 * outbox changes rows of other resources with it; other statements run on its connection.
 */
export interface RowStore<R> extends ChangeContext {
  insert(values: Partial<R>): Promise<R>
  /** Updates the columns that differ; does nothing if none does. */
  update(current: R, values: Partial<R>): Promise<R>
  remove(current: R): Promise<void>
}

/**
 * Writes rows of another resource as its requests do: with its schemas, defaults, references, states, actions, search
 * text and events. The rules for the caller do not apply, since the action decides; its own actions see the caller as an
 * admin. Errors are those of a request to the resource, and their fields begin with its name.
 */
export interface OtherStore<R> {
  /**
   * Returns a row, locked until the transaction ends; undefined if there is none. Call it before anything that refers to
   * the row is written.
   * @param use what follows in this transaction. Default: changes of fields without a unique index
   */
  find(id: string, use?: 'change' | 'removal'): Promise<R | undefined>
  /** @throws ApiError 409 or 422 */
  create(fields: Partial<R>): Promise<R>
  /** Changes the fields that differ. @throws ApiError 404, 409 or 422 */
  change(id: string, fields: Partial<R>): Promise<R>
  /** @throws ApiError 404 or 409 */
  remove(id: string): Promise<void>
}

/** What an action writes with. */
export interface Store<R> extends RowStore<R> {
  /** Returns the store of the resource with this table. @throws Error if there is none */
  of<T extends ResourceTable>(table: T): OtherStore<T['$inferSelect']>
  /** Enqueues mails; undefined if no mails are sent. */
  mail: Pick<Mailer, 'enqueue'> | undefined
  /**
   * Enqueues work in the transaction: the function of `defineWork` does it after the commit, at least once.
   * @returns whether it was added: not if there is work of this name with the same key
   */
  enqueue: Enqueue
  /** Whether the transaction is rolled back: what it does outside of the database would remain. */
  isDryRun: boolean
  /** The IP address of the client; undefined for commands. */
  ip: string | undefined
}
