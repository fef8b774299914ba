/** What the code of routes writes with, and the rows that it writes. */
import type { Actor } from '@resource-api/api/actor'
import type { RowId } from '@resource-api/database/key'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ChangeOrigin } from '../outbox/origin.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import type { Mailer } from './mailer.ts'
import type { ResourceTable } from './resource-table.ts'
import type { Enqueue } from './work.ts'

/**
 * A row as the engine handles it: the members that are columns, by their names. Timestamps are PostgreSQL's text. The revision of
 * a row without such a column is a number of its content.
 */
export type Row = { id: RowId; revision: number } & Record<string, unknown>

/** The write for which code runs. */
export interface StoreCall {
  /** The HTTP request, that of the batch for an operation. */
  request: FastifyRequest
  reply: FastifyReply
  address: { actor: Actor }
  /** Who has made the change, as events say. Default: the caller. */
  origin?: ChangeOrigin
}

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
  /** Inserts rows by one statement, if they have the same columns. */
  insertAll(rows: readonly Partial<R>[]): Promise<R[]>
  /** Updates the columns that differ; does nothing if none does. */
  update(current: R, values: Partial<R>): Promise<R>
  remove(current: R): Promise<void>
}

/**
 * Writes rows of another resource by the steps of its own operations: with its schemas, defaults, references, states, code,
 * search text and events. The rules for the caller do not apply, since the action decides; its own code sees the caller as
 * an admin. Errors are those of a request to the resource, and their fields begin with its name.
 */
export interface OtherStore<R> {
  /**
   * Returns a row, locked until the transaction ends; undefined if there is none. Call it before anything that refers to
   * the row is written.
   * @param use what follows in this transaction: `reference` if the row is only referred to, so that others may change it and
   *   refer to it too, but not remove it. Default: changes of fields without a unique index, for which others wait
   */
  find(id: RowId, use?: 'reference' | 'change' | 'removal'): Promise<R | undefined>
  /** @throws ApiError 409 or 422 */
  create(fields: Partial<R>): Promise<R>
  /** Changes the fields that differ; an object is replaced as a whole. @throws ApiError 404, 409 or 422 */
  change(id: RowId, fields: Partial<R>): Promise<R>
  /** @throws ApiError 404 or 409 */
  remove(id: RowId): Promise<void>
}

/**
 * What code does once for all writes of a transaction, right before its commit: for rows for which others wait, such as
 * those of a stock.
 */
export interface CommitHook<V> {
  /** The table whose rows it locks. Hooks run in the order of these names. */
  table: PgTable
  /**
   * Returns whether what the code has read without a lock still holds; if not, nothing is written, and the transaction of a
   * request is repeated. An import is 409 then.
   */
  run(store: Store<Row>, value: V): Promise<boolean>
}

/** What an action writes with. */
export interface Store<R> extends RowStore<R> {
  /**
   * Runs a hook once before the commit, with the last value that `update` has returned in the transaction. In a batch with
   * operations of several collections, it runs after each of them, since the next ones see what it does.
   * @param update returns the new value, and does not change the former one; it may throw
   */
  beforeCommit<V>(hook: CommitHook<V>, update: (former: V | undefined) => V): void
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
