/** What a collection's card says: its name, its schemas, its table, its lists, its relations, its access, its own actions. */
import type { Static, TObject } from '@sinclair/typebox'
import type { SQL } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { Violation } from '../../schemas/error.ts'
import type { Access, Actor, Verb } from '../access/index.ts'
import type { Mode } from './request/body.ts'
import type { Store } from './sql/write.ts'

/** A row as the kernel handles it: its members by their names on the wire, and columns that never leave. */
export type Row = { id: string; revision: number } & Record<string, unknown>

/** A table that a collection can stand on. */
export type ResourceTable = PgTable & {
  id: PgColumn
  revision: PgColumn
  created_at: PgColumn
  updated_at: PgColumn
}

/** How a member sorts: by its column, or, where it can be null, by an expression for each direction. */
export type SortKey =
  | PgColumn
  | {
      column: PgColumn
      /** With NULL as the greatest of all, so that it comes last. */
      ascending: SQL
      /** With NULL as the least of all. */
      descending: SQL
      /** What a cursor says in place of NULL, for each direction. */
      nulls: { ascending: string; descending: string }
      /** What `ascending` puts before a value, where no value of the column's type is greater than all others. */
      prefix?: string
    }

export interface Relation {
  /** The card of what is related; a function, since cards name each other. */
  to: () => AnyCard
  /** The column of this table. */
  local: string
  /** The column of the related table, or of `through`, that equals it. */
  foreign: string
  /** A table between the two: its `foreign` equals `local`, its `other` is the related row's id. */
  through?: { table: PgTable; foreign: PgColumn; other: PgColumn }
  many: boolean
  /** To-many: all of them, not the 20 newest. */
  all?: boolean
}

/** What a change comes to: the members after it, and which of them change. */
export interface Change<B> {
  next: B
  /** The members that differ from before. */
  changed: ReadonlySet<string>
}

/** What the app lends to slow work while the client waits for the reply. */
export interface Tools {
  passwords: {
    hash(password: string): Promise<string>
    /** Returns false also if there is no hash, after the same time. */
    verify(hash: string | null, password: string): Promise<boolean>
  }
  /** Has a password of an account verified, unless too many were wrong (429); those that are not right count. */
  attempt(account: string, verify: () => Promise<boolean>): Promise<boolean>
}

/** What slow work came to. */
export interface Prepared<R, B> {
  /** Columns to write beside the members. */
  columns: Partial<R>
  /** Whether it still holds for the row as it is now that it is locked; where it does not, the write is refused (409). */
  holds?(current: R, change: Change<B>): boolean
}

/**
 * What is a collection's own in a write; all of it runs in the write's transaction. What it throws undoes the write.
 * A write without an action of its own inserts, updates or removes the row as it is.
 */
export interface Actions<R, C, U> {
  /**
   * What of a change the row, the caller and the body together forbid: 403, and 422 for what only the row could tell.
   * Asked before preconditions and states are looked at, as the contract orders it.
   */
  guard?(current: R, change: Change<U & R>, actor: Actor): void
  /** Slow work, done before the transaction begins; `seen` is the row, not yet locked, and what would change in it. */
  prepare?(
    body: Partial<C & U>,
    actor: Actor,
    tools: Tools,
    seen?: { current: R; change: Change<U & R> },
  ): Promise<Prepared<R, U & R>>
  create?(store: Store<R>, id: string, body: C & Partial<R>, actor: Actor): Promise<R>
  change?(store: Store<R>, current: R, change: Change<U & R>, actor: Actor): Promise<R>
  remove?(store: Store<R>, current: R, actor: Actor): Promise<void>
}

export interface CardOptions<R, C, U, Computed = Record<string, unknown>> {
  /** The collection's name on the wire: in paths, as a type, in scopes. */
  name: string
  /** For operationIds: `listProducts`, `createProduct`. */
  singular: string
  plural: string
  description: string
  table: ResourceTable
  parent?: {
    /** The card of the parent's collection, under whose members this one stands. */
    to: () => AnyCard
    /** The member and column that holds the parent's id. */
    member: string
  }
  /** Which operations there are; all where absent. */
  verbs?: readonly Verb[]
  /** Whether a key may not be used here: what is done with keys cannot be done by one. */
  bearerOnly?: boolean
  /** In place of one's own id in the path. */
  me?: boolean
  schemas: { read: TObject; create: TObject; change: TObject }
  /** Members that are given at creation, or by the path, and never change. */
  immutable?: readonly string[]
  /** Members that PUT keeps where they are absent, in place of their defaults. */
  kept?: readonly string[]
  filters: readonly string[]
  sorts: Readonly<Record<string, SortKey>>
  /** Text that a search looks in; the server's own, not the database's: it is folded on its way in. */
  search: readonly string[]
  relations: Readonly<Record<string, Relation>>
  access: Access
  /** For each member that is a state: from where to where it may go. */
  transitions?: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
  /** Members of a new resource that have no default of their own. */
  defaults?(actor: Actor): Partial<C> & Partial<R>
  /** Members that a caller may not set in a new resource: to them they are read-only. */
  withheld?(actor: Actor): readonly string[]
  /** Members that no column holds. A reply that is kept for an Idempotency-Key has them as the columns alone tell. */
  computed?(row: R & Readonly<Record<string, unknown>>, actor: Actor): Computed
  /** What no schema can say, of those members that are sound in themselves. */
  check?(body: Partial<C & U>, mode: Mode): Violation[]
  actions?: Actions<R, C, U>
}

/** A card as the kernel reads it, whatever its rows are. */
export type AnyCard = CardOptions<Row, Record<string, unknown>, Record<string, unknown>>

/** The members that a schema promises and no column holds. */
type Lacking<Members, Columns> = Exclude<keyof Members, keyof Columns>
type Missing<Members, Columns> = Pick<Members, Lacking<Members, Columns>>

/**
 * Defines a collection. The compiler proves that the table's rows are what the schema promises.
 * The one cast of the kernel stands here: behind it, bodies are what the schemas let through, and rows what the table holds.
 */
export function defineCollection<
  T extends ResourceTable,
  const Read extends TObject,
  const Create extends TObject,
  const Update extends TObject,
>(
  card: Omit<
    CardOptions<T['$inferSelect'], Static<Create>, Static<Update>, Missing<Static<Read>, T['$inferSelect']>>,
    'table' | 'schemas'
  > & {
    table: T
    schemas: T['$inferSelect'] extends Omit<Static<Read>, Lacking<Static<Read>, T['$inferSelect']>>
      ? { read: Read; create: Create; change: Update }
      : { error: 'the rows of the table do not fit the schema'; row: T['$inferSelect']; schema: Static<Read> }
  } & (Lacking<Static<Read>, T['$inferSelect']> extends never ? unknown : { computed: unknown }),
): AnyCard {
  return card as unknown as AnyCard
}
