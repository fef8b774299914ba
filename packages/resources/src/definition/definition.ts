/** What a collection says of itself: table, schemas, lists, relations, access rules, state transitions. */

import type { Actor } from '@resource-api/api/actor'
import { toPascalCase } from '@resource-api/api/documents'
import type { Violation } from '@resource-api/api/errors'
import { type Access, type RoleRules, type Verb, verbs } from '@resource-api/api/rules'
import type { StreamType } from '@resource-api/api/versions'
import { getRowParts, isExisting, type RowId } from '@resource-api/database/key'
import { getViewTable, type View } from '@resource-api/database/tables'
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { FastifyInstance } from 'fastify'
import type { CheckedAccess } from './checked-rules.ts'
import type { Mode } from './code.ts'
import type { CommonField, FieldRule } from './fields.ts'
import { toSortKey } from './null-sort.ts'
import type {
  AggregateOptions,
  ConstraintMeaning,
  Lacking,
  Missing,
  RelationDefinition,
  ResourceTable,
  ResourceView,
  SortKey,
  TableOf,
  TypedBodies,
  TypedLists,
  TypedParts,
  Unwritable,
} from './resource-table.ts'
import type { Row } from './store.ts'

/** Lists of a collection: what they filter and sort by, and search in. */
export interface ListOptions {
  /** Fields that a list filters by: equality with one of several values. */
  filters?: readonly string[]
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
  /** Fields that a list sorts by. Rows in which a nullable one is NULL come last. By name: with expressions of its own. */
  sorts?: readonly string[] | Readonly<Record<string, SortKey>>
  /**
   * Filters, ranges and sorts that have no index on purpose: a list by them reads any number of rows. Ranges and sorts are
   * named by their field, filters by their parameter, such as `status` or `note_null`.
   */
  unindexed?: readonly string[]
  /** Text fields that `search` looks in. */
  search?: readonly string[]
  /** What aggregates are computed of: the collection then has the route of `aggregate`. Default: it has none. */
  aggregates?: AggregateOptions
  /** The sort of a list that asks for none, such as `-position`. Default: `-created_at`. */
  defaultSort?: string
  /** `cursor` if lists have no page numbers. Default: clients choose between the two. */
  pagination?: 'cursor'
  /** The schemas of values that filters accept, for filters that accept others than the field has. */
  filterValues?: Readonly<Record<string, TSchema>>
  /** The streams that a list offers besides pages. Default: exports as NDJSON and CSV. */
  streams?: readonly StreamType[]
}

/** What bodies may have, beyond what their schemas say. */
export interface BodyOptions {
  /** Fields that are set at creation, or by the path, and never change. */
  immutable?: readonly string[]
  /** Fields that PUT keeps, instead of resetting them to their defaults, if they are absent. */
  kept?: readonly string[]
  /** Fields of a creation that an import does not have, such as a password, which takes long to hash. */
  notImported?: readonly string[]
  /**
   * Fields with a foreign key to another resource for which the row that they refer to only has to exist. Default: none; a
   * reference to a row that the caller may not read is 422 `NOT_FOUND`, as one to a row that does not exist, and a new
   * row below such a parent is 403.
   */
  uncheckedReferences?: readonly string[]
  /** Returns the fields of a new resource that this caller may not set. */
  withheld?(actor: Actor): readonly string[]
  /** Returns the fields of an existing resource that this caller may not change. */
  locked?(actor: Actor, id: RowId, server: Pick<FastifyInstance, 'mail'>): readonly string[]
}

/** What only collections of the product need: credentials, events and accounts. */
export interface SystemOptions {
  /**
   * Whether only Bearer tokens are accepted, so that no API key can manage API keys. Each write locks the caller's row and
   * session, and is 401 after a sign-out on another process: a session that has ended creates and extends no credential.
   */
  bearerOnly?: boolean
  /** Whether its rows decide what a credential permits: a change of them takes effect immediately. */
  isCredential?: boolean
  /** Whether `me` in the path stands for the id of the caller. */
  me?: boolean
  /** Whether changes are events. Default: they are. */
  isRecorded?: boolean
  /** The column with the time from which a row does not exist for requests. A task of its own deletes such rows. */
  expiry?: PgColumn
  /** Whether reads always go to the primary. Default: they may go to a replica. */
  readsPrimary?: boolean
  /** Whether its writes have dry runs. Default: those of the application have. */
  hasDryRun?: boolean
  /** Whether its handlers decide who may read a row, and not its rules. */
  hasOwnReaders?: boolean
}

/** What every collection says of itself, besides its lists, bodies and versions. */
interface CommonOptions<R, C, U, Computed = Record<string, unknown>> {
  description: string
  table: ResourceTable
  schemas: { read: TObject; create: TObject; change: TObject }
  /** The resource under whose path this one stands, and the field that holds its id. */
  parent?: { to: string; member: string }
  relations?: Readonly<Record<string, RelationDefinition>>
  /** Who may do what on which rows. A collection has the operations that are named here, each with a route. */
  access: Access & {
    actions?: Readonly<Record<string, RoleRules>>
    /** Who may restore which deleted rows, of those that they may create and delete. */
    restore?: RoleRules
  }
  /** For each field that is a state: the states that may follow each state. */
  transitions?: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
  /**
   * Exclusion and check constraints of the table, by their names. A row that an exclusion constraint refuses is 409, one
   * that a check refuses is 422.
   */
  constraints?: Readonly<Record<string, ConstraintMeaning>>
  /**
   * Whether the message of `raise exception` in a trigger of the table is sent to clients. Default: it is in the log alone,
   * and the 409 says nothing of it.
   */
  raises?: boolean
  /**
   * Fields that not every role may read or write. If some role may not read a field, computed fields must be named too,
   * since they may depend on it: `{}` for every role.
   */
  fields?: Readonly<Record<string, FieldRule>>
  /** Returns fields of a new resource whose defaults depend on the caller. */
  defaults?(actor: Actor): Partial<C> & Partial<R>
  /** Returns fields without a column. A response stored for an Idempotency-Key has them as computed from columns only. */
  computed?(row: R & Readonly<Record<string, unknown>>, actor: Actor): Computed
  /** Checks what no schema can express. Sees only fields that are valid by themselves. */
  check?(body: Partial<C & U>, mode: Mode): Violation[]
}

type Listed = 'filters' | 'search'

/** A collection as the engine reads it: all options side by side, without the types of its rows and bodies. */
export interface ResourceDefinition
  extends Omit<CommonOptions<Row, Record<string, unknown>, Record<string, unknown>>, 'access' | 'relations'>,
    Required<Pick<CommonOptions<Row, unknown, unknown>, 'relations'>>,
    Omit<ListOptions, Listed | 'sorts'>,
    Required<Pick<ListOptions, Listed>>,
    BodyOptions,
    SystemOptions {
  /** The name in paths, in scopes, and as the type in v2. */
  name: string
  /** For operation ids: `createProduct`. */
  singular: string
  plural: string
  sorts: Readonly<Record<string, SortKey>>
  access: Access
  /** Of the six operations: those with access. */
  verbs: readonly Verb[]
  /** Whether it is read from a view. */
  isView?: boolean
  /** The actions, by the last segment of their paths. */
  operations: Readonly<Record<string, { access: RoleRules }>>
  /** Whether deleted rows can be restored: one of the operations is `restores`. */
  isRestorable?: boolean
}

/** The last segment of the path of a restore. */
export const RESTORES = 'restores'

/** The last segment of the path of aggregates. */
export const AGGREGATES = 'aggregates'

/**
 * A collection for its routes, which read the types of its rows and bodies from it.
 * @typeParam R a row of its table
 * @typeParam C the body of a creation
 * @typeParam U the body of a change
 */
export interface Collection<R = Row, C = Record<string, unknown>, U = Record<string, unknown>>
  extends ResourceDefinition {
  /** For the compiler alone: no value has it. */
  readonly types?: { row: R; create: C; change: U }
}

type RowOf<S extends ResourceTable | ResourceView> = TableOf<S>['$inferSelect']

/** The fields that are columns. */
type FieldColumn<S extends ResourceTable | ResourceView, Read extends TObject> = keyof RowOf<S> &
  keyof Static<Read> &
  string

/**
 * Defines a collection. The compiler proves that the rows of the table fit the schema, and that all names exist. Its routes
 * are registered by a plugin: see `resource`. A collection of a `view` is only read.
 */
export function collection<
  S extends ResourceTable | ResourceView,
  const Read extends TObject,
  const Create extends TObject,
  const Update extends TObject,
  const Targets extends Record<string, ResourceTable>,
  const Rules extends CheckedAccess<Rules, TableOf<S>> = Record<never, never>,
>(
  options: Omit<
    CommonOptions<RowOf<S>, Static<Create>, Static<Update>, Missing<Static<Read>, RowOf<S>>>,
    'table' | 'schemas' | 'fields' | 'access' | keyof TypedParts<unknown, string, string, never>
  > &
    TypedParts<Static<Read>, keyof RowOf<S> & string, FieldColumn<S, Read>, Targets> & {
      /** The name in paths, in scopes, and as the type in v2. Default: that of the table, with hyphens. */
      name?: string
      lists?: Omit<ListOptions, keyof TypedLists<unknown, string>> &
        TypedLists<Static<Read>, FieldColumn<S, Read>>
      bodies?: Omit<BodyOptions, keyof TypedBodies<string, string, string>> &
        TypedBodies<FieldColumn<S, Read>, keyof Static<Create> & string, keyof Static<Update> & string>
      system?: SystemOptions
      access: Rules
      fields?: {
        readonly [K in Exclude<
          keyof (Static<Read> & Static<Create> & Static<Update>),
          CommonField
        >]?: FieldRule
      }
      schemas: RowOf<S> extends Pick<Static<Read>, keyof Static<Read> & keyof RowOf<S>>
        ? S extends ResourceTable
          ? [Unwritable<Static<Create>, RowOf<S>> | Unwritable<Static<Update>, RowOf<S>>] extends [never]
            ? { read: Read; create: Create; change: Update }
            : {
                error: 'a body may have null in fields whose columns are NOT NULL'
                fields: Unwritable<Static<Create>, RowOf<S>> | Unwritable<Static<Update>, RowOf<S>>
              }
          : { read: Read }
        : {
            error: 'the rows of the table do not fit the schema'
            row: RowOf<S>
            schema: Static<Read>
          }
    } & (S extends ResourceTable ? { table: S } : { view: S }) &
    (Lacking<Static<Read>, RowOf<S>> extends never ? unknown : { computed: unknown }),
): Collection<RowOf<S>, Static<Create>, Static<Update>> {
  // The engine passes only rows of this table and bodies that the schemas have validated.
  return flatten(options as unknown as CollectionOptions) as Collection<never, never, never>
}

/** The options of a collection without the types of its rows and bodies. */
type CollectionOptions = CommonOptions<Row, Record<string, unknown>, Record<string, unknown>> & {
  name?: string
  /** In the place of the table. */
  view?: View
  lists?: ListOptions
  bodies?: BodyOptions
  system?: SystemOptions
}

/** What a collection of a view does not declare. */
const toViewOptions = (view: View) => ({
  // `ResourceView` has these columns, except the revision, which only writes compare.
  table: getViewTable(view) as ResourceTable,
  isView: true,
  isRecorded: false,
})

/** The schemas of the bodies of a collection that has none. */
const NO_BODIES = { create: Type.Object({}), change: Type.Object({}) }

const isNames = (sorts: NonNullable<ListOptions['sorts']>): sorts is readonly string[] => Array.isArray(sorts)

/** Returns the rules without those of roles that may not create or not delete any row. */
const toRestoreRules = (restore: RoleRules, { create = {}, remove = {} }: Access): RoleRules =>
  Object.fromEntries(
    Object.entries(restore).filter(([role]) => {
      // The keys of rules are roles.
      const name = role as keyof RoleRules
      return [create, remove].every((rules) => (rules[name] ?? false) !== false)
    }),
  )

function flatten({
  lists = {},
  bodies,
  system,
  access,
  view,
  ...given
}: CollectionOptions): ResourceDefinition {
  const schemas = { ...NO_BODIES, ...given.schemas }
  const options = { ...given, schemas, ...(view && toViewOptions(view)) }
  const { name = getTableName(options.table).replaceAll('_', '-') } = options
  const { actions = {}, restore, ...rules } = access
  const restores = restore && { [RESTORES]: toRestoreRules(restore, rules) }
  const { filters = [], sorts = {}, ...listed } = lists
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(options.table)
  const { created, key } = getRowParts(options.table)
  const toSort = (field: string): [string, SortKey][] => {
    const column = columns[field]
    return column ? [[field, toSortKey(column)]] : []
  }
  return {
    search: [],
    relations: {},
    // The key, if rows have no time.
    ...(isExisting(options.table) && { defaultSort: created === undefined ? 'id' : `-${created}` }),
    ...options,
    name,
    singular: options.schemas.read.title ?? '',
    plural: toPascalCase(name),
    access: rules,
    verbs: verbs.filter((verb) => rules[verb]),
    operations: Object.fromEntries(
      Object.entries({ ...actions, ...restores }).map(([action, of]) => [action, { access: of }]),
    ),
    isRestorable: restore !== undefined,
    ...listed,
    filters: isExisting(options.table) ? [...new Set(['id', ...filters])] : filters,
    sorts: {
      // Its index is known without a declaration.
      ...(isExisting(options.table) && { id: key.parts[0].column }),
      ...(isNames(sorts) ? Object.fromEntries(sorts.flatMap(toSort)) : sorts),
    },
    ...bodies,
    ...system,
  }
}
