/** What routes return and accept, whatever the version: resources without an envelope, which the scope of a version adds. */
import type { TObject, TSchema } from '@sinclair/typebox'

/**
 * A resource to be written: its members in their JSON form, and the included relations. The members belong to this one
 * response, so that a version may add to them.
 */
export interface Entity {
  type: string
  members: { id: string | number } & Record<string, unknown>
  /** The members that a version with others shows, as it names them. Default: all that it makes of these members. */
  shown?: readonly string[] | undefined
  relations?: Record<string, Entity[] | Entity | null> | undefined
}

export interface Meta {
  includes?: Record<string, { has_more: boolean; truncated: string[] }>
  /** The time of the response. Default: now. */
  timestamp?: string
  dry_run?: true
}

export type Pagination =
  | { cursor: string | null; has_more: boolean }
  | { page: number; limit: number; total: number; total_pages: number }

/** The result of a route that responds with one resource. */
export interface ResourceResult {
  entity: Entity
  meta?: Meta | undefined
}

/** The result of a route that responds with a page of resources. */
export interface PageResult {
  entities: readonly Entity[]
  pagination: Pagination
  meta?: Meta | undefined
}

export type Result = ResourceResult | PageResult

/** The input for a resource's schema in a response: its type, its members and the relations that may be included. */
export interface Shape {
  type: string
  members: TObject
  /** Whether `fields` may narrow the members. If so, only the id is always present. */
  selectable: boolean
  /** Those that `include` may add; undefined if there are none. */
  relations?: Record<string, { shape: Shape; many: boolean }>
}

/** What a response has: one resource, or a page of them. */
interface ResultShape {
  shape: Shape
  many: boolean
}

/** What a body has: the fields of a resource. */
interface FieldsOf {
  /** The type of the resource. */
  type: string
  /** Whether the path has the id of the resource, so that the body may have it too. */
  addressed: boolean
  /** The schema of the id. Default: a UUID. */
  id?: TSchema | undefined
  /** What the body does with the fields of a collection; undefined if they are not those of a collection. */
  mode?: 'create' | 'replace' | 'update' | undefined
}

const RESULT = Symbol('result')
const FIELDS = Symbol('fields')

/** Returns the schema of a response whose route returns a result. Its examples are results too. */
export const toResultSchema = (shape: Shape, many = false): TSchema => ({
  ...shape.members,
  [RESULT]: { shape, many },
})

export const getResultShape = (schema: TSchema): ResultShape | undefined =>
  // Only `toResultSchema` sets it.
  (schema as { [RESULT]?: ResultShape })[RESULT]

/** Returns the schema of a body that has the fields of a resource. */
export const toFieldsSchema = <T extends TSchema>(schema: T, fieldsOf: FieldsOf): T => ({
  ...schema,
  [FIELDS]: fieldsOf,
})

export const getFieldsOf = (schema: TSchema): FieldsOf | undefined =>
  // Only `toFieldsSchema` sets it.
  (schema as { [FIELDS]?: FieldsOf })[FIELDS]
