/** The code of a collection's own that its routes run: `create(resource, createOrder)`. */
import type { Actor } from '@resource-api/api/actor'
import type { Conflict } from '@resource-api/api/documents'
import type { Connection } from '@resource-api/database'
import type { RowId } from '@resource-api/database/key'
import type { Static, TObject } from '@sinclair/typebox'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Row, Store } from './store.ts'

/** What a body does: creates a resource, replaces one, or changes the fields that it names (RFC 7396). */
export type Mode = 'create' | 'replace' | 'update'

export interface Change<B> {
  next: B
  changed: ReadonlySet<string>
}

/** What slow work before a write may use while the client waits for the response. */
export interface Tools {
  passwords: {
    hash(password: string): Promise<string>
    /** Returns false also if there is no hash, after the same time. */
    verify(hash: string | null, password: string): Promise<boolean>
  }
  /**
   * Runs the verification of an account's password; failures count as failed sign-ins.
   * @throws ApiError 429 after too many of them
   */
  attempt(account: string, verify: () => Promise<boolean>): Promise<boolean>
}

export interface Prepared<R, B> {
  columns: Partial<R>
  /** Returns whether the result still applies to the row, now that it is locked; the write is 409 if not. */
  stillApplies?(current: R, change: Change<B>): boolean
}

/** A write whose code may lock rows of another resource. */
interface LockingWrite<B> {
  /** The row, which is locked; undefined for a creation. */
  id: RowId | undefined
  /** Those of the body; undefined for a removal, and for an action. */
  fields: B | undefined
}

/** The rows of another resource that the code locks. A batch locks them before its first operation, in one order. */
export interface Locks<B = Partial<Row>> {
  table: PgTable
  /**
   * Whether only hooks of `store.beforeCommit` lock them: an import has no time limit then, and a batch locks them first only
   * if it writes other collections too. Default: `run` locks them.
   */
  isLast?: boolean
  /** Returns the ids of these rows. */
  find(connection: Connection, writes: readonly LockingWrite<B>[]): Promise<readonly RowId[]>
}

/** What a route says in the documents besides what all routes of its kind say. */
export interface RouteTexts {
  /** What the operation does besides its usual work, such as a change of other resources. */
  description?: string
  /** The statuses of errors that it has in addition to those of all routes of its kind. */
  failures?: readonly number[]
  /** What a 409 of its own code says. */
  conflicts?: readonly Conflict[]
}

/*
 * `run` is the code's own part of a write, in the transaction of the write; an error rolls the write back. Without it, the
 * engine inserts, updates or deletes the row.
 */

interface Creation<R, C> {
  store: Store<R>
  /** The id of the new row; undefined if a trigger of a table that others have made sets it. */
  id: R extends { id: string } ? R['id'] : RowId | undefined
  /** The fields of the body, with defaults, and the columns that `prepare` has returned. */
  body: C & Partial<R>
  actor: Actor
}

export interface CreateCode<R, C> extends RouteTexts {
  /** Does slow work before the transaction begins. */
  prepare?(creation: { body: Partial<C>; actor: Actor; tools: Tools }): Promise<Prepared<R, C & R>>
  run?(creation: Creation<R, C>): Promise<R>
  /**
   * Takes the place of `run`, for several creations that follow each other in a batch or an import.
   * @returns their rows, in the same order; if it fails, fewer creations are tried, until one alone is at fault
   */
  runAll?(creations: readonly Creation<R, C>[]): Promise<R[]>
  /** Takes the place of `run` for a request of its own, such as to send a mail, which batches and imports do not. */
  runAlone?(creation: Creation<R, C>): Promise<R>
  locks?: Locks<Partial<C>>
}

interface Changing<R, U> extends Change<U & R> {
  current: R
  actor: Actor
}

export interface ChangeCode<R, U> extends RouteTexts {
  /**
   * Checks what only row, caller and body together decide. Runs before preconditions and state transitions.
   * @throws ApiError 403, 409 or 422
   */
  guard?(
    changing: Changing<R, U> & {
      /** Reads other rows; it may lock them, since the transaction has locked the row. */
      connection: Connection
    },
  ): void | Promise<void>
  /** Does slow work before the transaction begins. The row is not locked yet. */
  prepare?(changing: Changing<R, U> & { body: Partial<U>; tools: Tools }): Promise<Prepared<R, U & R>>
  run?(changing: Changing<R, U> & { store: Store<R> }): Promise<R>
  locks?: Locks<Partial<U>>
}

export interface RemoveCode<R> extends RouteTexts {
  run?(removal: { store: Store<R>; current: R; actor: Actor }): Promise<void>
  locks?: Locks<never>
}

/**
 * An operation on one resource besides the six: `POST /{collection}/{id}/{action}`, such as a refund of an order. Who may run
 * it stands in `access.actions` of the collection; a credential needs the `write` scope.
 */
export interface ActionOptions<B extends TObject = TObject> {
  /** Unique in the API, such as `refundOrder`. */
  operationId: string
  summary: string
  description: string
  /** The fields of the body. Default: the body is empty or `{}`. */
  body?: B
  /** The fields of the response, if it is not the resource. With `id`. */
  response?: TObject
  /** Whether it may remove the row, or change a field with a unique index: the row is then locked as for a removal. */
  removes?: boolean
  /** Whether it has a dry run. Without, `dry_run` is an unknown parameter. Default: actions of the application have one. */
  hasDryRun?: boolean
}

/**
 * Runs an action in a transaction that has locked the row, after If-Match was checked.
 * @returns the row as it is now, with values of computed fields; or the fields of `response`
 * @throws ApiError 409 or 422
 */
export type RunAction<R, B extends TObject = TObject> = (action: {
  store: Store<R>
  current: R
  body: Static<B>
  actor: Actor
}) => Promise<Readonly<Record<string, unknown>>>

/** The code of the writes of a collection, without the types of its rows and bodies. Actions of other resources run it too. */
export interface Code {
  create?: CreateCode<Row, Partial<Row>>
  replace?: ChangeCode<Row, Row>
  update?: ChangeCode<Row, Row>
  remove?: RemoveCode<Row>
}
