/** Query strings: what was sent, checked one by one against the parameters that there are. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { type FieldCode, MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import { getMaxUnits, hasLongMarkRun, LONG_MARK_RUN } from './text-limits.ts'

export type Parameters = Readonly<Record<string, string | number | undefined>>

/** The parameters of a query string, parsed by Fastify but not validated. */
export type Sent = Readonly<Record<string, unknown>>

export const getQuery = ({ query }: FastifyRequest) => query as Sent

export interface Parsed {
  /** What is sound in itself. */
  sent: Parameters
  /** What was sent and is not. */
  unsound: ReadonlySet<string>
  /** What is wrong, to be added to. */
  found: Violation[]
}

export const violation = (field: string, message: string, code: FieldCode): Violation => ({
  field,
  message,
  code,
})

/** As JSON writes integers. Those too large for a number are out of every range all the same. */
function toInteger(text: string): number | string {
  if (!/^(?:0|-?[1-9]\d*)$/.test(text)) return text
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Number(text)))
}

/** Text as bodies have it: NFC and trimmed. */
function readText(name: string, value: string, maxLength: number, found: Violation[]): string | undefined {
  const text = value.trim()
  if (text.length > getMaxUnits(maxLength)) {
    found.push(violation(name, `must NOT have more than ${maxLength} characters`, 'TOO_LONG'))
    return undefined
  }
  if (hasLongMarkRun(text)) {
    found.push(violation(name, LONG_MARK_RUN, 'INVALID_FORMAT'))
    return undefined
  }
  return text.normalize('NFC')
}

/** A value as the schema looks at it: a number where it wants an integer; undefined for one that has been refused. */
function readValue(parameter: TSchema, name: string, value: unknown, found: Violation[]): unknown {
  if (typeof value !== 'string') return value
  if (parameter.type === 'integer') return toInteger(value)
  return parameter['x-trim'] ? readText(name, value, parameter.maxLength, found) : value
}

/** Percent-encodings that are none, or that are not UTF-8, would reach the parameters as they are. */
function checkEncoding(url: string) {
  const mark = url.indexOf('?')
  if (mark === -1) return
  try {
    decodeURIComponent(url.slice(mark))
  } catch (cause) {
    throw apiError('INVALID_REQUEST', {
      message: 'The query string is not valid percent-encoded UTF-8',
      cause,
    })
  }
}

/** Reads the query strings that a schema describes. */
export function createQueryReader(ajv: Ajv, schema: TObject) {
  const validate = compileSchema(ajv, schema)

  return (query: Sent, url: string): Parsed => {
    checkEncoding(url)
    const found: Violation[] = []
    const values: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(query)) {
      if (found.length >= MAX_VIOLATIONS) throw invalidQuery(found)
      const parameter: TSchema | undefined = Object.hasOwn(schema.properties, name)
        ? schema.properties[name]
        : undefined
      if (!parameter) found.push(violation(name, 'is not a known parameter', 'UNKNOWN_PARAMETER'))
      else if (Array.isArray(value)) {
        found.push(violation(name, 'is given more than once', 'CONFLICTING_PARAMETERS'))
      } else values[name] = readValue(parameter, name, value, found)
    }
    if (!validate(values)) found.push(...toViolations(validate.errors ?? []))
    // Only what is sound in itself is looked at further.
    const unsound = new Set(found.map(({ field }) => field))
    const sound = Object.entries(values).filter(([name]) => !unsound.has(name))
    return { sent: Object.fromEntries(sound) as Parameters, unsound, found }
  }
}

/** Queries that are remembered, of one list in one version; and characters of each. */
const MOST_QUERIES = 2_000
const LONGEST_QUERY = 512

/** What was read of a query is not read again: it is the same for everybody, and clients send few, over and over. */
export function remembering<T extends object>(read: (query: Sent, url: string) => T): typeof read {
  const known = new LRUCache<string, T>({ max: MOST_QUERIES })
  return (query, url) => {
    const mark = url.indexOf('?')
    const text = mark === -1 ? '' : url.slice(mark)
    const before = known.get(text)
    if (before) return before
    const found = read(query, url)
    if (text.length <= LONGEST_QUERY) known.set(text, found)
    return found
  }
}

/** For operations without parameters: any is unknown. */
export const createNoQueryReader = (ajv: Ajv) => {
  const read = createQueryReader(ajv, Type.Object({}, { additionalProperties: false }))
  return (query: Sent, url: string) => {
    if (!url.includes('?')) return
    const { found } = read(query, url)
    if (found.length > 0) throw invalidQuery(found)
  }
}
