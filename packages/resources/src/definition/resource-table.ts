/** Tables that resources are stored in, with their sorts and relations, and the types of the names in a definition. */
import type { Actor } from '@resource-api/api/actor'
import type { FieldCode } from '@resource-api/api/errors'
import type { ExistingTable, RowId } from '@resource-api/database/key'
import type { View } from '@resource-api/database/tables'
import type { SQL } from 'drizzle-orm'
import type { PgColumn, PgTable, PgTableWithColumns } from 'drizzle-orm/pg-core'
import type { FastifyInstance } from 'fastify'

/** A table with the columns of `common()`, or one that others have made. */
export type ResourceTable =
  | (PgTable & { id: PgColumn; revision: PgColumn; created_at: PgColumn; updated_at: PgColumn })
  | ExistingTable

/** A view whose columns are declared: `pgView('sales', { id: uuid().notNull(), ... }).as(sql\`...\`)`. */
export type ResourceView = View & { id: PgColumn; created_at: PgColumn; updated_at: PgColumn }

/** The table that statements read a view by. It has no revision: nothing writes it. */
export type TableOf<Source> = Source extends ResourceTable
  ? Source
  : Source extends {
        _: { name: infer Name extends string; selectedFields: infer Columns extends Record<string, PgColumn> }
      }
    ? PgTableWithColumns<{ name: Name; schema: undefined; columns: Columns; dialect: 'pg' }> & ResourceTable
    : ResourceTable

/**
 * What a field sorts by: its column or, for a nullable one, an expression without NULL for each direction.
 * @typeParam NotNull a column that is never null
 */
export type SortKey<Column extends PgColumn = PgColumn, NotNull extends PgColumn = Column> =
  | NotNull
  | {
      column: Column
      /** NULL is greater than every value, so that it comes last. */
      ascending: SQL
      /** NULL is less than every value, so that it comes last. */
      descending: SQL
      /** The text that stands for NULL in a cursor. */
      nulls: { ascending: string; descending: string }
      /** What `ascending` puts before a value, for types that have no greatest value. */
      prefix?: string
    }

export interface RelationDefinition {
  /** The table of the related resource. While no resource is registered that is stored in it, there is no such relation. */
  to: ResourceTable
  local: string
  /** The column of the related table. Without a join table, it equals `local`. */
  foreign: string
  /** A join table, with its columns that equal `local` and `foreign`. */
  through?: { table: PgTable; local: PgColumn; foreign: PgColumn }
  many: boolean
  /** To-one: the name of the to-many relation that the related resource gets back to this one, such as `orders` of users. */
  inverse?: string
  /** To-one: filters of the related resource that a list has too, as `{relation}.{field}`, such as `user.status`. */
  filters?: readonly string[]
  /** To-many: includes all related rows, not only the 20 newest. */
  all?: boolean
}

/** What the violation of a constraint means to clients. */
export interface ConstraintMeaning<Field extends string = string> {
  code: FieldCode
  /** The fields that the constraint compares: each has a violation. */
  fields: readonly Field[]
  message: string
}

/** The fields that are no columns; the id of a key of several columns follows from these. */
export type Lacking<Fields, Columns> = Exclude<keyof Fields, keyof Columns | 'id'>
export type Missing<Fields, Columns> = Pick<Fields, Lacking<Fields, Columns>>
/** The fields of a body that may be null, although their columns are NOT NULL: a row with one could not be written. */
export type Unwritable<Body, Columns> = {
  [K in keyof Body & keyof Columns]: null extends Body[K] ? (null extends Columns[K] ? never : K) : never
}[keyof Body & keyof Columns]

// The parameters of these types are unions of names, not tables: a message of the compiler then lists the allowed names.

/** The values of an enum; never for other types. */
type State<Value> = Value extends string ? (string extends Value ? never : Value) : never

type EnumField<Fields> = { [K in keyof Fields]: [State<Fields[K]>] extends [never] ? never : K }[keyof Fields]

export interface AggregateOptions<Measured extends string = string, Grouped extends string = string> {
  /** Fields with a sum, an average and limits: numbers and decimals; dates and times have limits only. The count is always one. */
  measures?: readonly Measured[]
  /** Fields by whose values resources are grouped; dates and times by day, week or month (UTC). */
  groups?: readonly Grouped[]
}

/** The states that may follow each state. All states are named, so that a new one is not forgotten. */
type Successors<S extends string> = { readonly [From in S]: readonly S[] }

type Named<Name extends string> = PgColumn & { _: { name: Name } }

type TypedRelation<Column extends string, Foreign extends string, Target> = Omit<
  RelationDefinition,
  'to' | 'local' | 'foreign' | 'filters'
> & { to: Target; local: Column; foreign: Foreign; filters?: readonly Foreign[] }

/**
 * The names in the lists of a collection.
 * @typeParam Column the fields that are columns
 */
export interface TypedLists<Fields, Column extends string> {
  filters?: readonly {
    [K in Column & keyof Fields]: Fields[K] extends string | number | boolean | null ? K : never
  }[Column & keyof Fields][]
  negations?: readonly Column[]
  nullChecks?: readonly {
    [K in Column & keyof Fields]: null extends Fields[K] ? K : never
  }[Column & keyof Fields][]
  prefixes?: readonly Column[]
  ranges?: readonly {
    [K in Column & keyof Fields]: Fields[K] extends string | number | null ? K : never
  }[Column & keyof Fields][]
  sorts?:
    | readonly Column[]
    | { readonly [K in Column]?: SortKey<Named<K>, Named<K> & { _: { notNull: true } }> }
  search?: readonly Column[]
  aggregates?: AggregateOptions<
    {
      [K in Column & keyof Fields]: Fields[K] extends string | number | null ? K : never
    }[Column & keyof Fields],
    {
      [K in Column & keyof Fields]: Fields[K] extends string | number | boolean | null ? K : never
    }[Column & keyof Fields]
  >
}

/**
 * The names of fields in what is said of bodies.
 * @typeParam Column the fields that are columns
 * @typeParam Creatable the fields that a client may set at creation
 * @typeParam Changeable the fields that a client may change
 */
export interface TypedBodies<Column extends string, Creatable extends string, Changeable extends string> {
  immutable?: readonly Creatable[]
  uncheckedReferences?: readonly (Column | Creatable | Changeable)[]
  kept?: readonly Changeable[]
  withheld?(actor: Actor): readonly Creatable[]
  locked?(actor: Actor, id: RowId, server: Pick<FastifyInstance, 'mail'>): readonly Changeable[]
}

/**
 * The parts of a collection that name columns or fields.
 * @typeParam Column the columns of the table
 * @typeParam Field the fields that are columns
 */
export interface TypedParts<
  Fields,
  Column extends string,
  Field extends string,
  Targets extends Record<string, ResourceTable>,
> {
  parent?: { to: string; member: Field }
  relations?: {
    readonly [K in keyof Targets]: TypedRelation<
      Column,
      NoInfer<keyof Targets[K]['$inferSelect'] & string>,
      Targets[K]
    >
  }
  transitions?: {
    readonly [K in EnumField<Pick<Fields, Field & keyof Fields>>]?: Successors<State<Fields[K]>>
  }
  constraints?: Readonly<Record<string, ConstraintMeaning<keyof Fields & string>>>
}

/** What a table has by which the database may refuse a write. */
export interface Constraint {
  /**
   * `unique` is an index too, `reference` a foreign key of this or another table by which rows refer to those of the table,
   * `trigger` a constraint trigger, and `row security` says that the policies of the table apply to the role.
   */
  kind: 'unique' | 'exclusion' | 'check' | 'foreign key' | 'reference' | 'trigger' | 'row security'
  name: string
  /** The table that an error names: a partition has constraints of its own, and a reference the referring table. */
  table: string
  /** Undefined of a declaration, which is found by the search path. */
  schema?: string
  /** The columns of the table; of an index over expressions, those inside them too. */
  columns: readonly string[]
  /** Whether an index has only some rows. */
  isPartial: boolean
  /** Whether foreign keys can refer to it: it is unique, of whole columns, over all rows. */
  isKey: boolean
  isDeferrable: boolean
}
