/** What a resource says of itself: name, schemas, table, lists, relations, access rules, state transitions, actions. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Connection } from '../../drizzle/client/types.ts'
import type { Violation } from '../../schemas/error.ts'
import type { Access, Actor, CallerRole, RoleRules, Verb } from '../access/index.ts'
import type { MailQueue } from '../mail/index.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import type { StreamType } from '../versioning/accept.ts'
import type { CheckedAccess, CheckedRules } from './checked-rules.ts'
import type { HandlerContext, ListHandler, ReadHandler } from './handlers.ts'
import type {
  ConstraintMeaning,
  Lacking,
  Missing,
  RelationDefinition,
  ResourceTable,
  SortKey,
  TypedName,
  TypedNames,
} from './resource-table.ts'

/** A row as the engine handles it: the columns of its table by their names. Timestamps are PostgreSQL's text. */
export type Row = { id: string; revision: number; updated_at: string } & Record<string, unknown>

/** Returns the value of a text or uuid column. */
export function getText(row: Readonly<Record<string, unknown>>, name: string): string {
  const value = row[name]
  if (typeof value !== 'string') throw new Error(`The column ${name} has no text`)
  return value
}

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
  /** Returns a row, locked until the transaction ends; undefined if there is none. */
  find(id: string): Promise<R | undefined>
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
  mail: Pick<MailQueue, 'enqueue'> | undefined
  /** The IP address of the client; undefined for commands. */
  ip: string | undefined
}

export interface Prepared<R, B> {
  columns: Partial<R>
  /** Returns whether the result still applies to the row, now that it is locked; the write is 409 if not. */
  stillApplies?(current: R, change: Change<B>): boolean
}

/**
 * The resource's own part of a write. It runs in the transaction of the write, and an error rolls the write back. Without
 * an action, the engine inserts, updates or deletes the row.
 */
interface Actions<R, C, U> {
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
  /**
   * Runs in a transaction that has locked the row, after If-Match was checked.
   * @returns the row as it is now, with values of computed fields; or the fields of `response`
   * @throws ApiError 409 or 422
   */
  run(store: Store<R>, current: R, body: Static<B>, actor: Actor): Promise<Readonly<Record<string, unknown>>>
}

/** Fields of every resource in every version: addresses, the default sort and `Last-Modified` depend on them. */
export const COMMON_FIELDS = ['id', 'created_at', 'updated_at'] as const

export type CommonField = (typeof COMMON_FIELDS)[number]

/** A read-only field that only a version has. Its value follows from the resource. */
interface AddedField<Fields, Value> {
  schema: Value
  /** @param resource the fields of the read schema, in their JSON form and with the names of the definition */
  value(resource: Readonly<Fields>): Value extends TSchema ? Static<Value> : never
}

/** The roles that may read and write a field. */
export interface FieldRule {
  /** For other roles, the field does not exist. Default: all roles. */
  read?: readonly CallerRole[]
  /** Other roles get 422 `READ_ONLY`. They must be able to read it. Default: the roles that may read it. */
  write?: readonly CallerRole[]
}

/** The names of the fields that only versions have. */
type AddedName<Added> = {
  [V in keyof Added]: [Added[V]] extends [never] ? never : keyof Added[V] & string
}[keyof Added]

/** The differences between a version and the definition. Fields that are not named are as in the definition. */
export interface VersionFields<
  Fields = Record<string, unknown>,
  Name extends string = string,
  Added = Readonly<Record<string, TSchema>>,
> {
  rename?: Readonly<Partial<Record<Name, string>>>
  /** Fields that the version does not have: they are not in responses, and unknown in requests. */
  hide?: readonly Name[]
  add?: { readonly [K in keyof Added]: AddedField<Fields, Added[K]> }
}

export interface DefinitionOptions<R, C, U, Computed = Record<string, unknown>> {
  /** The name in paths, in scopes, and as the type in v2. */
  name: string
  /** For operation ids: `createProduct`. */
  singular: string
  plural: string
  description: string
  table: ResourceTable
  /** The resource under whose path this one stands, and the field that holds its id. */
  parent?: { to: string; member: string }
  /** The operations. Default: all. */
  verbs?: readonly Verb[]
  /**
   * Whether only Bearer tokens are accepted, so that no API key can manage API keys. Each write locks the caller's row and
   * session, and is 401 after a sign-out on another process: a session that has ended creates and extends no credential.
   */
  bearerOnly?: boolean
  /** Whether `me` in the path stands for the id of the caller. */
  me?: boolean
  /** Whether changes are events. Default: they are. */
  isRecorded?: boolean
  /** The column with the time from which a row does not exist for requests. A task of its own deletes such rows. */
  expiry?: PgColumn
  /** The streams that its list offers besides pages. Default: exports as NDJSON and CSV. */
  streams?: readonly StreamType[]
  /** Whether reads always go to the primary. Default: they may go to a replica. */
  readsPrimary?: boolean
  schemas: { read: TObject; create: TObject; change: TObject }
  /** Fields that are set at creation, or by the path, and never change. */
  immutable?: readonly string[]
  /**
   * Fields with a foreign key to another resource for which the row that they refer to only has to exist. Default: none; a
   * reference to a row that the caller may not read is 422 `NOT_FOUND`, as one to a row that does not exist, and a new
   * row below such a parent is 403.
   */
  uncheckedReferences?: readonly string[]
  /** Fields that PUT keeps, instead of resetting them to their defaults, if they are absent. */
  kept?: readonly string[]
  /** Fields of a creation that an import does not have, such as a password, which takes long to hash. */
  notImported?: readonly string[]
  /** Fields that a list filters by: equality with one of several values. */
  filters: readonly string[]
  /** Filters that a list also negates, with `{field}_not`: none of several values. A field that is null has none of them. */
  negations?: readonly string[]
  /** Nullable fields that a list filters by with `{field}_null`. */
  nullChecks?: readonly string[]
  /**
   * Searched fields that a list filters by with `{field}_prefix`: how the text begins, regardless of case. The searched
   * text of a row has them as lines, so their places in `search` must not change while there are rows.
   */
  prefixes?: readonly string[]
  /** Numbers, dates and times that a list limits with `{field}_min` and `{field}_max`. */
  ranges?: readonly string[]
  sorts: Readonly<Record<string, SortKey>>
  /**
   * Filters, ranges and sorts that have no index on purpose: a list by them reads any number of rows. Ranges and sorts are
   * named by their field, filters by their parameter, such as `status` or `note_null`.
   */
  unindexed?: readonly string[]
  /** Text fields that `search` looks in. */
  search: readonly string[]
  relations: Readonly<Record<string, RelationDefinition>>
  access: Access
  /** For each field that is a state: the states that may follow each state. */
  transitions?: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
  /**
   * Exclusion and check constraints of the table, by their names. A row that an exclusion constraint refuses is 409, one
   * that a check refuses is 422. Every exclusion constraint has to be named: a write that may wait for it is not batched.
   */
  constraints?: Readonly<Record<string, ConstraintMeaning>>
  /**
   * Fields that not every role may read or write. If some role may not read a field, computed fields and those that only a
   * version has must be named too, since they may depend on it: `{}` for every role.
   */
  fields?: Readonly<Record<string, FieldRule>>
  /** Returns fields of a new resource whose defaults depend on the caller. */
  defaults?(actor: Actor): Partial<C> & Partial<R>
  /** Returns the fields of a new resource that this caller may not set. */
  withheld?(actor: Actor): readonly string[]
  /** Returns fields without a column. A response stored for an Idempotency-Key has them as computed from columns only. */
  computed?(row: R & Readonly<Record<string, unknown>>, actor: Actor): Computed
  /** Checks what no schema can express. Sees only fields that are valid by themselves. */
  check?(body: Partial<C & U>, mode: Mode): Violation[]
  /** How fields differ in a version of the API, by its number. A version without an entry has the fields above. */
  versions?: Readonly<Record<number, VersionFields>>
  actions?: Actions<R, C, U>
  /** Operations on one resource besides the six, by the last segment of their path. */
  operations?: Readonly<Record<string, OwnOperation<R>>>
  /** The sort of a list that asks for none, such as `-position`. Default: `-created_at`. */
  defaultSort?: string
  /** `cursor` if lists have no page numbers. Default: clients choose between the two. */
  pagination?: 'cursor'
  /** The schemas of values that filters accept, for filters that accept others than the field has. */
  filterValues?: Readonly<Record<string, TSchema>>
  /** What an operation does besides its usual work, such as a change of other resources: a text of the documents. */
  notes?: Readonly<Partial<Record<Verb, string>>>
  /** The statuses of errors that an operation has in addition to those of all resources. */
  failures?: Readonly<Partial<Record<Verb, readonly number[]>>>
  /** Creates the handlers of operations that differ from those of the engine, in one version. */
  handlers?(context: HandlerContext): { list?: ListHandler; read?: ReadHandler }
}

/** A definition as the engine reads it, without the types of its rows and bodies. */
export type ResourceDefinition = DefinitionOptions<Row, Record<string, unknown>, Record<string, unknown>>

/** Defines a resource. The compiler proves that the rows of the table fit the schema, and that all names exist. */
export function defineResource<
  T extends ResourceTable,
  const Read extends TObject,
  const Create extends TObject,
  const Update extends TObject,
  const Targets extends Record<string, ResourceTable>,
  Added extends Readonly<Record<number, Readonly<Record<string, TSchema>>>> = Record<number, never>,
  Bodies extends Readonly<Record<string, TObject>> = Record<string, never>,
  const Rules extends CheckedAccess<Rules, T> = Record<never, never>,
  const OperationRules extends {
    readonly [K in keyof OperationRules]: CheckedRules<OperationRules[K], T>
  } = Record<never, never>,
>(
  definition: Omit<
    DefinitionOptions<
      T['$inferSelect'],
      Static<Create>,
      Static<Update>,
      Missing<Static<Read>, T['$inferSelect']>
    >,
    'table' | 'schemas' | 'versions' | 'operations' | 'fields' | 'access' | TypedName
  > &
    TypedNames<
      Static<Read>,
      keyof T['$inferSelect'] & string,
      keyof T['$inferSelect'] & keyof Static<Read> & string,
      keyof Static<Create> & string,
      keyof Static<Update> & string,
      Targets
    > & {
      table: T
      access: Rules
      operations?: {
        readonly [K in keyof Bodies]: OwnOperation<T['$inferSelect'], Bodies[K]>
      } & {
        readonly [K in keyof OperationRules]: {
          readonly [P in keyof OwnOperation<unknown>]?: unknown
        } & { access: OperationRules[K] }
      }
      versions?: {
        readonly [V in keyof Added]: VersionFields<
          Static<Read>,
          Exclude<keyof (Static<Read> & Static<Create> & Static<Update>), CommonField> & string,
          Added[V]
        >
      }
      fields?: {
        readonly [K in
          | Exclude<keyof (Static<Read> & Static<Create> & Static<Update>), CommonField>
          | AddedName<NoInfer<Added>>]?: FieldRule
      }
      schemas: T['$inferSelect'] extends Omit<Static<Read>, Lacking<Static<Read>, T['$inferSelect']>>
        ? { read: Read; create: Create; change: Update }
        : {
            error: 'the rows of the table do not fit the schema'
            row: T['$inferSelect']
            schema: Static<Read>
          }
    } & (Lacking<Static<Read>, T['$inferSelect']> extends never ? unknown : { computed: unknown }),
): ResourceDefinition {
  // The engine passes only rows of this table and bodies that the schemas have validated.
  return definition as unknown as ResourceDefinition
}
