/** The interface of a representation: how one version of the API writes resources and reads bodies. */
import type { Static, TObject, TSchema, TUnsafe } from '@sinclair/typebox'
import type { ErrorEnvelope } from '../../errors/errors.ts'
import type { Entity, Meta, Pagination, Shape } from '../../results/result.ts'

/** The JSON value of a page of resources. */
export interface Page {
  data: readonly unknown[]
  pagination: Pagination
  meta: Meta & { timestamp: string }
}

/** A body of either form: the fields themselves, or in the envelope of v2. */
type SentBody<T> = T | { data: { id?: string; attributes: T } }

/** `update` for the row of an import whose resource exists. */
export type RowMode = 'create' | 'update'

/** The fields of a collection in a version in which they are others. */
export interface FieldMapping {
  schemas: { read: TObject; create: TObject; change: TObject }
  /**
   * The fields of the collection of which each field of a response is made. Parameters that compare a field of the collection
   * have the name of the field that is made of it alone, else of the one that is made of it and others.
   */
  sources: Readonly<Record<string, readonly string[]>>
  /** The writable fields of the collection that the version does not have. PUT keeps them. */
  lacking: readonly string[]
}

/** By the names of the collections. */
export type FieldMappings = Readonly<Record<string, FieldMapping>>

export interface Representation {
  version: number
  /** How it writes resources and the details of errors, as text for the OpenAPI document. */
  about: string
  /** Returns the members of a resource as the version names them. */
  members(entity: Entity): Entity['members']
  /** Returns the JSON value of a resource without its envelope, as a row of an export has it. */
  resource(entity: Entity): Record<string, unknown>
  one(entity: Entity, meta?: Meta): { data: Record<string, unknown>; meta: object }
  many(entities: readonly Entity[], pagination: Pagination, meta?: Meta): Page
  error: ErrorEnvelope
  /** The mappings of the collections that differ in the version. */
  mappings?: FieldMappings
  schemas: {
    one(shape: Shape): TSchema
    many(shape: Shape): TSchema
    /** Returns the schema of the fields of a resource in a body. Its values, once validated, are those of the collection. */
    fields(members: TSchema, type: string, mode: 'create' | 'replace' | 'update'): TSchema
    /** As `fields`, of the row of an import. Default: its fields are those of the collection. */
    row?(members: TSchema, type: string, mode: RowMode): TSchema
    /**
     * Returns the schema of a body, with its envelope if it has one.
     * @param members a titled schema
     * @param addressed whether the path has the id of the resource, so that the body may have it too
     * @param id the schema of the id in the collection. Default: a UUID
     */
    body<T extends TSchema>(
      members: T,
      type: string,
      addressed: boolean,
      id?: TSchema,
    ): TUnsafe<SentBody<Static<T>>>
    error: TObject
  }
}
