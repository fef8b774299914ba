/** What a definition says of its fields in one version: renamed, hidden and added ones. */
import type { Static, TSchema } from '@sinclair/typebox'

/** Fields of every resource in every version: addresses, the default sort and `Last-Modified` depend on them. */
export const COMMON_FIELDS = ['id', 'created_at', 'updated_at'] as const

export type CommonField = (typeof COMMON_FIELDS)[number]

/** A read-only field that only a version has. Its value follows from the resource. */
interface AddedField<Fields, Value> {
  schema: Value
  /** @param resource the fields of the read schema, in their JSON form and with the names of the definition */
  value(resource: Readonly<Fields>): Value extends TSchema ? Static<Value> : never
}

/** The differences between a version and the definition. Fields that are not named are as in the definition. */
export interface VersionFields<
  Fields = Record<string, unknown>,
  Name extends string = string,
  Added = Readonly<Record<string, TSchema>>,
> {
  /** The names of fields in the version. */
  rename?: Readonly<Partial<Record<Name, string>>>
  /** Fields that the version does not have: they are not in responses, and unknown in requests. */
  hide?: readonly Name[]
  /** Fields that only the version has. */
  add?: { readonly [K in keyof Added]: AddedField<Fields, Added[K]> }
}
