/** Estimates the size of rows and responses, which decide how a list is read and what a request costs. */
import type { TObject, TSchema } from '@sinclair/typebox'
import type { Row } from '../definition/store.ts'

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
/** A value that cannot be long, such as a number or an id. */
const SHORT_VALUE_BYTES = 30
/** Of a value with a format, such as a URL: if it can take as many bytes, it is measured. */
const LONG_FIELD_BYTES = 1_000
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

/** Returns about how many bytes a resource takes in a response. */
export function estimateBytes(members: object): number {
  let bytes = 0
  for (const value of Object.values(members)) bytes += estimateValueBytes(value)
  return bytes
}

/** Returns whether no value can be long, also of rows that other programs write: a number, an id, one of a list of values. */
function isShort(schema: TSchema): boolean {
  const types = [schema.type].flat()
  if (types.every((type) => ['integer', 'number', 'boolean', 'null'].includes(type))) return true
  const isLimited = schema.format !== undefined || schema.enum !== undefined
  return isLimited && getMaxBytes(schema) < LONG_FIELD_BYTES
}

/**
 * Creates a function that estimates the bytes of a row in a response. It reads only the fields that can be long, also by
 * rows that other programs write: for 20 orders with their users, 120 values instead of 452.
 */
export function createRowSizer({ properties }: TObject): (row: Row) => number {
  const fields = Object.entries(properties)
  const longNames = fields.filter(([, schema]) => !isShort(schema)).map(([name]) => name)
  const shortBytes = (fields.length - longNames.length) * SHORT_VALUE_BYTES
  return (row) => {
    let bytes = shortBytes
    for (const name of longNames) bytes += estimateValueBytes(row[name])
    return bytes
  }
}
