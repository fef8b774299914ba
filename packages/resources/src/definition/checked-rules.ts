/** Checks access rules by their types: roles, operations, columns, each step of a path, and the values. */
import type { CallerRole } from '@resource-api/api/actor'
import type { CALLER, NOT_NULL, Verb } from '@resource-api/api/rules'
import type { RelatedTables } from './known-relations.ts'
import type { ResourceTable } from './resource-table.ts'

/** The columns that can hold a user's id: a timestamp's text, or one of a few states, never equals it. */
type CallerColumn = { _: { columnType: 'PgUUID' | 'PgText' | 'PgVarchar' | 'PgCustomColumn' } }

type ColumnValue<Value, Column> =
  | Extract<Value, string | number | boolean>
  | (string extends Value ? (Column extends CallerColumn ? typeof CALLER : never) : never)

type Related<T extends ResourceTable> = RelatedTables<T['_']['name']>

/** The relations that a message of the compiler names. */
type RelationName<T extends ResourceTable> = [keyof Related<T>] extends [never]
  ? `none in KnownRelations.${T['_']['name']}`
  : keyof Related<T> & string

/**
 * The values that a column or a path may be compared with. For an unknown name, they are messages of the compiler.
 * @typeParam Any what stands for any value at the end of a path; `never` for a column of the row itself
 */
type PathValue<T extends ResourceTable, Path, Any = never> = Path extends `${infer Relation}.${infer Rest}`
  ? Relation extends keyof Related<T>
    ? PathValue<Extract<Related<T>[Relation], ResourceTable>, Rest, typeof NOT_NULL>
    : `${T['_']['name']} has no relation ${Relation}; there is ${RelationName<T>}`
  : Path extends keyof T & keyof T['$inferSelect']
    ? ColumnValue<T['$inferSelect'][Path], T[Path]> | (null extends T['$inferSelect'][Path] ? Any : never)
    : `${T['_']['name']} has no column ${Path & string}; there is ${keyof T['$inferSelect'] & string}`

/** The columns and paths that editors suggest. @typeParam Steps the relations of the longest path, a member each */
type PathName<T, Steps extends readonly unknown[]> = T extends ResourceTable
  ?
      | (keyof T['$inferSelect'] & string)
      | (Steps extends readonly [unknown, ...infer Fewer] ? PathOver<Related<T>, Fewer> : never)
  : never

type PathOver<Targets, Steps extends readonly unknown[]> = {
  [R in keyof Targets & string]: `${R}.${PathName<Targets[R], Steps>}`
}[keyof Targets & string]

type CheckedCondition<Given, T extends ResourceTable> = {
  readonly [Path in keyof Given]: PathValue<T, Path>
} & {
  readonly [Path in PathName<T, [1, 2, 3]>]?: unknown
}

type CheckedConditions<Given, T extends ResourceTable> = {
  readonly [I in keyof Given]: CheckedCondition<Given[I], T>
}

/** A rule of which no more is known, such as that of a role which is not in rules with a mistake. */
type AnyRule = boolean | readonly object[]

/** The rule of each role. What is wrong in `Rules` has a type that its value does not fit, which says what is wrong. */
export type CheckedRules<Rules, T extends ResourceTable> = {
  readonly [Role in keyof Rules]: Role extends CallerRole
    ? Rules[Role] extends boolean
      ? boolean
      : AnyRule extends Rules[Role]
        ? AnyRule
        : CheckedConditions<Rules[Role], T>
    : `there is no role ${Role & string}`
} & { readonly [Role in CallerRole]?: AnyRule }

/** The rules of each operation. */
export type CheckedAccess<Access, T extends ResourceTable> = {
  readonly [V in keyof Access]: V extends Verb | 'restore'
    ? CheckedRules<Access[V], T>
    : V extends 'actions'
      ? { readonly [Action in keyof Access[V]]: CheckedRules<Access[V][Action], T> }
      : `there is no operation ${V & string}`
} & { readonly [V in Verb | 'actions' | 'restore']?: unknown }

/**
 * Returns the rules. In a definition, the compiler would report a wrong name where they are used; here, where it is
 * written.
 */
export const defineRules = <T extends ResourceTable, const Rules extends CheckedRules<Rules, T>>(
  _table: T,
  rules: Rules,
): Rules => rules
