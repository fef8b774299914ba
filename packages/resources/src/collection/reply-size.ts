/** Estimates the size of rows and responses, which decide how a list is read and what a request costs. */
import type { TSchema } from '@sinclair/typebox'
import type { Row } from './store.ts'

/** Rows of a page that names no limit. */
export const DEFAULT_LIMIT = 20

const MEBIBYTE = 1_048_576

/** Maximum estimated size of the rows of one response. */
export const MAX_PAGE_BYTES = 8 * MEBIBYTE
/** Maximum estimated size of the included rows of one response. A resource is serialized with them in one step. */
export const MAX_INCLUDED_BYTES = 4 * MEBIBYTE

const BYTES_PER_CHARACTER = 4
/** A string whose format limits its length, such as an id or a timestamp. */
const DEFAULT_STRING_BYTES = 64
const NUMBER_BYTES = 20
/** An element of a JSON array, such as an item of an order. */
const ARRAY_ELEMENT_BYTES = 300
const OBJECT_BYTES = 500

/** Returns the maximum bytes of a value of this schema in a response. */
function getMaxBytes(schema: TSchema): number {
  if (schema.properties) {
    const properties: Record<string, TSchema> = schema.properties
    return Object.values(properties).reduce((sum, property) => sum + getMaxBytes(property), 0)
  }
  if (schema.items) return (schema.maxItems ?? 1) * getMaxBytes(schema.items)
  const isString = [schema.type].flat().includes('string')
  if (!isString) return NUMBER_BYTES
  return schema.maxLength === undefined ? DEFAULT_STRING_BYTES : schema.maxLength * BYTES_PER_CHARACTER
}

/** Returns the limit from which the rows of a page may take more than MAX_PAGE_BYTES; more than the default limit. */
export const getLargePage = (schema: TSchema): number =>
  Math.max(DEFAULT_LIMIT + 1, Math.floor(MAX_PAGE_BYTES / getMaxBytes(schema)))

function estimateValueBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (Array.isArray(value)) return value.length * ARRAY_ELEMENT_BYTES
  return typeof value === 'object' && value !== null ? OBJECT_BYTES : NUMBER_BYTES
}

/** Returns about how many bytes a row takes in a response. */
export const estimateRowBytes = (row: Row): number =>
  Object.values(row).reduce<number>((sum, value) => sum + estimateValueBytes(value), 0)
