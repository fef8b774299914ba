/** The building blocks of the schemas: strings, numbers, ids, timestamps, money. */
import { type Static, type StringOptions, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'

interface TextOptions extends StringOptions {
  /** False keeps leading and trailing white space. */
  'x-trim'?: boolean
  /** Allows newlines and tabs. */
  'x-multiline'?: boolean
}

export const Text = (options: TextOptions) => Type.String(options)

/** A string that only responses have. */
export const Shown = (description: string, example: string) =>
  Type.String({ description, examples: [example] })

/** A text of one line that is not empty. */
export const Line = (maxLength: number, description: string, example: string) =>
  Text({ minLength: 1, maxLength, description, examples: [example] })

export const Secret = (maxLength: number, description: string, example: string) =>
  Text({ minLength: 1, maxLength, 'x-trim': false, description, examples: [example] })

export const Email = (description: string) =>
  Text({ format: 'email', maxLength: 254, description, examples: ['ada@example.com'] })

/** A text of one or more lines. */
export const Lines = (maxLength: number, description: string, example: string) =>
  Text({ maxLength, 'x-multiline': true, description, examples: [example] })

/** A type or null, as `type: [..., 'null']`: with `anyOf`, the serializer would validate each value to choose one. */
export const OrNull = <T extends TSchema>({ type, ...rest }: T): TUnsafe<Static<T> | null> => {
  const values = rest.enum ? { enum: [...rest.enum, null] } : {}
  return Type.Unsafe<Static<T> | null>({ ...rest, ...values, type: [type, 'null'] })
}

/** A type or null, with null as the default. */
export const Nullable = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> =>
  OrNull({ default: null, ...schema })

/** One of the given strings. With a title, generated clients have a type of that name. */
export const OneOf = <const T extends string>(
  values: readonly T[],
  options: { title?: string; default?: T; description?: string; examples?: T[] } = {},
) => Type.Unsafe<T>({ type: 'string', enum: values, ...options })

export const Integer = (
  minimum: number,
  maximum: number,
  options: { default?: number; description?: string; examples?: number[] } = {},
) => Type.Integer({ minimum, maximum, ...options })

export const exampleId = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

/** An id, which is a UUIDv7 assigned by the server. */
export const Id = (description = 'A UUIDv7 assigned by the server') =>
  Type.String({ format: 'uuid', description, examples: [exampleId] })

/** A timestamp by RFC 3339, in UTC with milliseconds. */
export const Timestamp = (description: string, example = '2026-11-21T09:30:00.000Z') =>
  Type.String({ format: 'date-time', description, examples: [example] })

/** An amount of money in minor units (cents) of the resource's currency. */
export const Amount = (maximum: number, description: string, example = 1999) =>
  Integer(0, maximum, { description, examples: [example] })

export const Currency = (description = 'An ISO 4217 code') =>
  Type.String({ format: 'iso-4217', description, examples: ['USD'] })

/** A time of day, such as `09:30:00`, in the time zone that the resource states. */
export const TimeOfDay = (options: StringOptions) => Type.String({ format: 'time-of-day', ...options })

/**
 * The pattern of dates and times that PostgreSQL stores: it has no year 0, which the formats permit. Without a look-ahead,
 * which Go, Rust and RE2 cannot compile.
 */
export const YEARS_FROM_1 = '^(?:[1-9]\\d{3}|\\d[1-9]\\d\\d|\\d\\d[1-9]\\d|\\d{3}[1-9])-'

/**
 * Whether a decimal number is -0, which PostgreSQL writes as 0. The format `decimal` refuses it: a pattern could do so only
 * with a look-ahead.
 */
export const isNegativeZero = (text: string): boolean => /^-0(?:\.0*)?$/.test(text)

/**
 * Returns the pattern of numbers as PostgreSQL writes them: with all decimals and without leading zeros. With the format
 * `decimal`, equal numbers are so equal texts.
 * @param precision the number of digits
 * @param scale how many of them are decimals
 */
export function getDecimalPattern(precision: number, scale: number): string {
  const whole = precision - scale
  const integer = whole > 1 ? `(?:0|[1-9][0-9]{0,${whole - 1}})` : whole === 1 ? '[0-9]' : '0'
  const decimals = scale > 0 ? `\\.[0-9]{${scale}}` : ''
  return `^-?${integer}${decimals}$`
}

/** An exact number with decimals, as a text: many JSON parsers would round a number. The column is `numeric`. */
export const Decimal = (precision: number, scale: number, options: StringOptions) =>
  Type.String({ format: 'decimal', pattern: getDecimalPattern(precision, scale), ...options })

export const HttpsUri = (description: string) =>
  Text({ format: 'https-uri', maxLength: 2048, description, examples: ['https://example.com/ada'] })

/** `Number.MAX_SAFE_INTEGER`: the largest integer that all JSON parsers represent exactly. */
export const MAX_INTEGER = 9_007_199_254_740_991

/** The read-only fields of every resource, set by the server. */
export const common = {
  created_at: Timestamp('The time of creation'),
  updated_at: Timestamp('The time of the last change'),
}

/** The input schema of resources whose fields clients cannot set. */
export const Nothing = Type.Object({})
