/** The parts of writes that a definition decides: its actions, and its own operations. */
import type { Static, TObject } from '@sinclair/typebox'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from '../../drizzle/client/types.ts'
import type { Actor } from '../access/actor.ts'
import type { RoleRules } from '../access/rules.ts'
import type { Store } from './store.ts'

/** What a body does: creates a resource, replaces one, or changes the fields that it names (RFC 7396). */
export type Mode = 'create' | 'replace' | 'update'

export interface Change<B> {
  next: B
  changed: ReadonlySet<string>
}

/** What slow work of an action may use while the client waits for the response. */
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

/** A write whose action may lock rows of another resource. */
interface LockingWrite<B> {
  /** The row, which is locked; undefined for a creation. */
  id: string | undefined
  /** Those of the body; undefined for a removal, and for an own operation. */
  fields: B | undefined
}

/**
 * The resource's own part of a write. It runs in the transaction of the write, and an error rolls the write back. Without
 * an action, the engine inserts, updates or deletes the row.
 */
export interface Actions<R, C, U> {
  /**
   * Checks what only row, caller and body together decide. Runs before preconditions and state transitions.
   * @param connection reads other rows; it may lock them, since the transaction has locked the row
   * @throws ApiError 403, 409 or 422
   */
  guard?(current: R, change: Change<U & R>, actor: Actor, connection: Connection): void | Promise<void>
  /** Does slow work before the transaction begins. `seen` has the row, not yet locked, and the change to it. */
  prepare?(
    body: Partial<C & U>,
    actor: Actor,
    tools: Tools,
    seen?: { current: R; change: Change<U & R> },
  ): Promise<Prepared<R, U & R>>
  create?(store: Store<R>, id: string, body: C & Partial<R>, actor: Actor): Promise<R>
  /** Takes the place of `create` for a request of its own, such as to send a mail, which batches and imports do not. */
  createAlone?(store: Store<R>, id: string, body: C & Partial<R>, actor: Actor): Promise<R>
  change?(store: Store<R>, current: R, change: Change<U & R>, actor: Actor): Promise<R>
  remove?(store: Store<R>, current: R, actor: Actor): Promise<void>
  /** The rows of another resource that the actions lock. A batch locks them before its first operation, in one order. */
  locks?: {
    table: PgTable
    /** Returns the ids of these rows. */
    find(connection: Connection, writes: readonly LockingWrite<Partial<C & U>>[]): Promise<readonly string[]>
  }
}

/** An operation on one resource besides the six: `POST /{collection}/{id}/{operation}`, such as a refund of an order. */
export interface OwnOperation<R, B extends TObject = TObject> {
  /** Unique in the API, such as `refundOrder`. */
  operationId: string
  summary: string
  description: string
  /** The rows on which each role may run it. A credential needs the `write` scope of the collection. */
  access: RoleRules
  /** The fields of the body. Default: the body is empty or `{}`. */
  body?: B
  /** The fields of the response, if it is not the resource. With `id`. */
  response?: TObject
  /** Whether it may remove the row, or change a field with a unique index: the row is then locked as for a removal. */
  removes?: boolean
  /**
   * Runs in a transaction that has locked the row, after If-Match was checked.
   * @returns the row as it is now, with values of computed fields; or the fields of `response`
   * @throws ApiError 409 or 422
   */
  run(store: Store<R>, current: R, body: Static<B>, actor: Actor): Promise<Readonly<Record<string, unknown>>>
}
