/** The words that every schema is made of. */
import { type Static, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'

/**
 * What a string's schema may say of how it is read, beside JSON Schema's own words:
 * - `x-trim: false`: white space at the ends is kept
 * - `x-multiline: true`: newlines and tabs may stand in it
 * and of an array's items:
 * - `x-unique-by: 'product_id'`: no two have the same value of that member
 */
interface TextOptions {
  minLength?: number
  maxLength?: number
  pattern?: string
  format?: string
  default?: string
  description?: string
  examples?: unknown[]
  writeOnly?: boolean
  'x-trim'?: boolean
  'x-multiline'?: boolean
}

export const Text = (options: TextOptions) => Type.String(options)

/** A type or null. One word for both, not `anyOf`: the serializer would validate each value to tell them apart. */
export const OrNull = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> => {
  const { type, ...rest } = schema
  return Type.Unsafe<Static<T> | null>({ ...rest, type: [type, 'null'] })
}

/** A type or null; null is what it has when nothing is given. */
export const Nullable = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> => {
  const { type, ...rest } = schema
  const values = Array.isArray(rest.enum) ? { enum: [...rest.enum, null] } : {}
  return Type.Unsafe<Static<T> | null>({ default: null, ...rest, ...values, type: [type, 'null'] })
}

/** One of some words. */
export const OneOf = <const T extends string>(
  values: readonly T[],
  options: { default?: T; description?: string } = {},
) => Type.Unsafe<T>({ type: 'string', enum: values, ...options })

export const Integer = (
  minimum: number,
  maximum: number,
  options: { default?: number; description?: string; examples?: number[] } = {},
) => Type.Integer({ minimum, maximum, ...options })

export const exampleId = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

/** An id: a UUIDv7 made by the server. */
export const Id = (description = 'Made by the server, a UUIDv7') =>
  Type.String({ format: 'uuid', description, examples: [exampleId] })

/** RFC 3339, UTC, milliseconds. */
export const Timestamp = (description: string) =>
  Type.String({ format: 'date-time', description, examples: ['2026-11-21T09:30:00.000Z'] })

/** Money: an integer in the minor units (cents) of the currency beside it. */
export const Amount = (maximum: number, description: string, example = 1999) =>
  Integer(0, maximum, { description, examples: [example] })

export const Currency = (description = 'An ISO 4217 code') =>
  Type.String({ format: 'iso-4217', description, examples: ['USD'] })

export const HttpsUri = (description: string) =>
  Text({ format: 'https-uri', maxLength: 2048, description, examples: ['https://example.com/ada'] })

/** The largest integer that every reader of JSON holds exactly. */
export const MAX_INTEGER = 9_007_199_254_740_991

/** What every resource has: made by the server, read-only. */
export const common = {
  created_at: Timestamp('When it was created'),
  updated_at: Timestamp('When it last changed'),
}

/** Of collections whose members are not sent. */
export const Nothing = Type.Object({})
