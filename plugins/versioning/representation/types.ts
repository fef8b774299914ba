/** The interface of a representation: how one version of the API writes resources and reads bodies. */
import type { Static, TObject, TSchema, TUnsafe } from '@sinclair/typebox'
import type { ErrorEnvelope } from '../../errors/index.ts'

/**
 * A resource to be written: its members in their JSON form, and the included relations. The members belong to this one
 * response, so that a representation may add to them.
 */
export interface Entity {
  type: string
  members: { id: string } & Record<string, unknown>
  relations?: Record<string, Entity[] | Entity | null> | undefined
}

export interface Meta {
  includes?: Record<string, { has_more: boolean; truncated: string[] }>
}

export type Pagination =
  | { cursor: string | null; has_more: boolean }
  | { page: number; limit: number; total: number; total_pages: number }

/** The JSON value of a page of resources. */
export interface Page {
  data: readonly unknown[]
  pagination: Pagination
  meta: Meta & { timestamp: string }
}

/** The input for a resource's schema in a response: its type, its members and the relations that may be included. */
export interface Shape {
  type: string
  members: TObject
  /** Whether `fields` may narrow the members. If so, only the id is always present. */
  selectable: boolean
  /** Those that `include` may add; undefined if there are none. */
  relations?: Record<string, { shape: Shape; many: boolean }>
}

/** A body of either form: the fields themselves, or in the envelope of v2. */
export type SentBody<T> = T | { data: { id?: string; attributes: T } }

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
  /**
   * Returns the fields in a body, and their path in it: '' or 'data.attributes.'
   * @param id the id of the addressed resource, undefined for a request that creates one
   * @throws ApiError 409 if the body names another id
   */
  body<T extends object>(sent: SentBody<T>, id?: string): { members: T; prefix: string }
  /** For collections that differ in the version: the fields that it does not have. PUT keeps them. */
  lacking?: Readonly<Record<string, readonly string[]>>
  schemas: {
    one(shape: Shape): TSchema
    many(shape: Shape): TSchema
    /** Returns the schema of the fields of a resource in a body. Its values, once validated, are those of the collection. */
    fields(members: TSchema, type: string, mode: 'create' | 'replace' | 'update'): TSchema
    /**
     * @param members a titled schema
     * @param addressed whether the path has the id of the resource, so that the body may have it too
     */
    body<T extends TSchema>(members: T, type: string, addressed: boolean): TUnsafe<SentBody<Static<T>>>
    error: TObject
  }
}
