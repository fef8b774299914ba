/** The types of settings, with their descriptions, defaults and bounds. */
import { type StringOptions, Type } from '@sinclair/typebox'
import type { FormatName } from './formats.ts'

/** A string, in a format of `formats.ts` if one is given. A `secret` is never printed. */
interface TextOptions extends StringOptions {
  format?: FormatName
  secret?: boolean
  /** The default in production, if it differs. */
  production?: string
}

export const text = (description: string, options: TextOptions & { default: string }) =>
  Type.String({ description, ...options })
export const optional = (description: string, options: TextOptions = {}) =>
  Type.Optional(Type.String({ description, ...options }))
export const list = (description: string, options: TextOptions = {}) =>
  Type.Array(Type.String(options), { description, default: [], secret: options.secret ?? false })
export const flag = (description: string) => Type.Boolean({ description, default: false })
export const number = (
  description: string,
  value: number,
  minimum: number,
  maximum: number,
  production = value,
) => Type.Integer({ description, default: value, minimum, maximum, production })
export const limit = (description: string, value: number) => number(description, value, 1, 1_000_000_000)
export const oneOf = <const T extends string>(description: string, value: T, values: readonly T[]) =>
  Type.Unsafe<T>(Type.String({ description, default: value, enum: values }))
