/** What a version is: one way to write the same resources. */
import type { TObject, TSchema } from '@sinclair/typebox'
import type { Violation } from '../../../schemas/error.ts'
import type { ErrorEnvelope } from '../../errors/index.ts'

/**
 * A resource as a collection hands it over: its members as they stand on the wire, and what was included. The members
 * are made for this one reply: who writes it may add to them.
 */
export interface Entity {
  type: string
  members: { id: string } & Record<string, unknown>
  relations?: Record<string, readonly Entity[] | Entity | null>
}

export interface Meta {
  includes?: Record<string, { has_more: boolean; truncated: string[] }>
}

export type Pagination =
  | { cursor: string | null; has_more: boolean }
  | { page: number; limit: number; total: number; total_pages: number }

/** A list as a version writes it. */
export interface Page {
  data: readonly unknown[]
  pagination: Pagination
  meta: Meta & { timestamp: string }
}

/** A resource's schema as a version writes it: its type, its members, the relations it may carry. */
export interface Shape {
  type: string
  members: TObject
  /** Whether `fields` and `include` may change the shape: then only the id is sure to be there. */
  selectable: boolean
  relations?: Record<string, { shape: Shape; many: boolean }>
}

/** A body as its members, and where they stood in it, for the errors. */
export interface ReadBody {
  members: Record<string, unknown>
  /** The path of the members in the body as sent: '' or 'data.attributes.' */
  prefix: string
  /** What is wrong around the members, to be told with what is wrong with them. */
  violations: readonly Violation[]
}

export interface Representation {
  version: number
  /** How it writes resources and the details of errors, in words for the documents. */
  about: string
  one(entity: Entity, meta: Meta): Record<string, unknown>
  many(entities: readonly Entity[], pagination: Pagination, meta: Meta): Page
  error: ErrorEnvelope
  /**
   * Reads the body of a request. `id` is the addressed resource's, undefined where one is created.
   * @throws ApiError 409, 422
   */
  body(sent: Record<string, unknown>, type: string, id: string | undefined): ReadBody
  schemas: {
    one(shape: Shape): TSchema
    many(shape: Shape): TSchema
    /** `addressed`: whether the path names the resource, which the body may then do too. */
    body(members: TObject, type: string, addressed: boolean): TSchema
    error: TSchema
  }
}
