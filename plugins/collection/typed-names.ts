/** The types of the names in a definition: only columns of its table and fields of its schemas are accepted. */
import type { Access, Actor, CALLER } from '../access/index.ts'
import type { RelationDefinition, ResourceTable, SortKey } from './resource-table.ts'

/** The fields that the schema has and the table has not. */
export type Lacking<Fields, Columns> = Exclude<keyof Fields, keyof Columns>
export type Missing<Fields, Columns> = Pick<Fields, Lacking<Fields, Columns>>

// The parameters of these types are unions of names, not tables: a message of the compiler then lists the allowed names.

/** The columns that can hold a user's id: a timestamp's text, or one of a few states, never equals it. */
type CallerColumn = { _: { columnType: 'PgUUID' | 'PgText' | 'PgVarchar' | 'PgCustomColumn' } }

type ConditionValue<Value, Column> =
  | Extract<Value, string | number | boolean>
  | (string extends Value ? (Column extends CallerColumn ? typeof CALLER : never) : never)

/** The values that columns of a row must have. */
export type TypedCondition<Column extends string, T extends ResourceTable> = {
  readonly [K in Column & keyof T]?: ConditionValue<T['$inferSelect'][K], T[K]>
}

/** The values of an enum; never for other types. */
type State<Value> = Value extends string ? (string extends Value ? never : Value) : never

type EnumField<Fields> = { [K in keyof Fields]: [State<Fields[K]>] extends [never] ? never : K }[keyof Fields]

/** The states that may follow each state. All states are named, so that a new one is not forgotten. */
type Successors<S extends string> = { readonly [From in S]: readonly S[] }

/** A relation to the rows of a table. */
type TypedRelation<Column extends string, Foreign extends string, Target> = Omit<
  RelationDefinition,
  'to' | 'local' | 'foreign'
> & { to: Target; local: Column; foreign: Foreign }

/**
 * The parts of a definition that consist of names.
 * @typeParam Column the columns of the table
 * @typeParam Field the fields that are columns
 * @typeParam Creatable the fields that a client may set at creation
 * @typeParam Changeable the fields that a client may change
 */
export interface TypedNames<
  T extends ResourceTable,
  Fields,
  Column extends string,
  Field extends string,
  Creatable extends string,
  Changeable extends string,
  Targets extends Record<string, ResourceTable>,
> {
  parent?: { to: string; member: Field }
  immutable?: readonly Creatable[]
  uncheckedReferences?: readonly (Field | Creatable | Changeable)[]
  kept?: readonly Changeable[]
  filters: readonly Field[]
  ranges?: readonly Field[]
  sorts: Readonly<Partial<Record<Field, SortKey>>>
  unindexed?: readonly Field[]
  search: readonly Field[]
  relations: {
    readonly [K in keyof Targets]: TypedRelation<
      Column,
      NoInfer<keyof Targets[K]['$inferSelect'] & string>,
      Targets[K]
    >
  }
  access: Access<TypedCondition<Column, T>>
  transitions?: {
    readonly [K in EnumField<Pick<Fields, Field & keyof Fields>>]?: Successors<State<Fields[K]>>
  }
  withheld?(actor: Actor): readonly Creatable[]
}

export type TypedName = keyof TypedNames<ResourceTable, unknown, string, string, string, string, never>
