/**
 * Functions that a schema carries, for what no keyword can say. They stand under symbols, as those of TypeBox's
 * `Type.Transform` do, so that JSON and the documents do not have them.
 */
import { type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { Violation } from '../errors/codes.ts'
import type { ApiError } from '../errors/errors.ts'

export type Fields = Record<string, unknown>

const DECODE = Symbol('decode')
const ENVELOPE = Symbol('envelope')

/**
 * Converts the values that are valid by themselves to what the handler gets.
 * @param violations those of the other values; it adds its own
 */
type Decode<Values, T> = (values: Values, violations: Violation[]) => T

/** Returns a schema whose values, once validated, are `Values`; handlers get them decoded, as `T`. */
export const withDecode = <Values, T>(schema: TSchema, decode: Decode<Values, T>): TUnsafe<T> =>
  Type.Unsafe<T>({ ...schema, [DECODE]: decode })

export const getDecode = (schema: TSchema): Decode<unknown, unknown> | undefined =>
  // Only `withDecode` sets it, for values that the same schema has validated.
  (schema as { [DECODE]?: Decode<unknown, unknown> })[DECODE]

/** The fields in a body, and their path in it: '' or, in v2, 'data.attributes.' */
export interface OpenedBody {
  members: Fields
  prefix: string
}

/** The fields of a body inside its envelope. */
export interface Envelope {
  /** The schema of the fields. */
  fields: TSchema
  /** The schema of a body in the envelope. */
  document: TSchema
  /**
   * Returns the fields, and their path in the body with a final dot, or ''.
   * @param id the id of the addressed resource, undefined for a request that creates one
   * @throws ApiError 409 if the body names another id
   */
  open(sent: Fields, id?: string | number): OpenedBody
  /** Returns the violations of the envelope itself, or the error because of which its fields are not validated. */
  check(sent: Readonly<Fields>): readonly Violation[] | ApiError
  /** Returns the body with other fields. */
  replace(sent: Readonly<Fields>, members: Fields): Fields
}

/** Returns the schema of a body whose fields stand in an envelope. */
export const withEnvelope = <T extends TSchema>(schema: T, envelope: Envelope): T => ({
  ...schema,
  [ENVELOPE]: envelope,
})

/** Returns the fields in a body that the schema has validated. @throws ApiError 409 */
export function openBody(schema: TSchema | undefined, sent: Fields, id?: string | number): OpenedBody {
  return (schema && getEnvelope(schema)?.open(sent, id)) ?? { members: sent, prefix: '' }
}

export const getEnvelope = (schema: TSchema): Envelope | undefined =>
  // Only `withEnvelope` sets it.
  (schema as { [ENVELOPE]?: Envelope })[ENVELOPE]
