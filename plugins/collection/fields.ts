/** What a definition says of single fields: who reads and writes them, and how they differ in a version. */
import type { Static, TSchema } from '@sinclair/typebox'
import type { CallerRole } from '../access/actor.ts'

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
export type AddedName<Added> = {
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
