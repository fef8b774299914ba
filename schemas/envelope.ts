/** What stands around the resources: meta, pagination, errors. */
import { type TProperties, Type } from '@sinclair/typebox'
import { failures, fieldCodes, MAX_VIOLATIONS } from './error.ts'
import { exampleId, Id, Integer, MAX_INTEGER, OneOf, OrNull, Timestamp } from './types.ts'

const Included = Type.Object(
  {
    has_more: Type.Boolean({
      description: 'Whether any parent has more than those shown',
      examples: [false],
    }),
    truncated: Type.Array(Id('A parent that has more')),
  },
  { title: 'Included' },
)

export const Meta = Type.Object(
  {
    timestamp: Timestamp('The time of the reply'),
    includes: Type.Optional(
      Type.Unsafe<Record<string, { has_more: boolean; truncated: string[] }>>({
        type: 'object',
        additionalProperties: Included,
        description: 'Of each included relation to many, by its name',
      }),
    ),
  },
  { title: 'Meta' },
)

const cursor = {
  cursor: OrNull(
    Type.String({
      description: 'For the next page; null on the last one',
      examples: ['eyJhZnRlciI6WyIyMDI2Il19'],
    }),
  ),
  has_more: Type.Boolean({ description: 'Whether there is a next page', examples: [true] }),
}

const offset = {
  page: Integer(1, MAX_INTEGER, { description: 'From 1', examples: [1] }),
  limit: Integer(1, 100, { description: 'The most resources on a page', examples: [20] }),
  total: Integer(0, MAX_INTEGER, { description: 'How many there are', examples: [42] }),
  total_pages: Integer(0, MAX_INTEGER, { description: 'How many pages that makes', examples: [3] }),
}

const CursorPagination = Type.Object(cursor, {
  title: 'CursorPagination',
  additionalProperties: false,
})
const OffsetPagination = Type.Object(offset, {
  title: 'OffsetPagination',
  additionalProperties: false,
})

/** One or the other; for the serializer one object of both, since of alternatives it would validate each. */
export const Pagination = Type.Partial(Type.Object({ ...cursor, ...offset }), {
  'x-documented': Type.Union([CursorPagination, OffsetPagination]),
})

const Violation = Type.Object(
  {
    field: Type.String({
      description: 'A path from the root of the body, or a parameter',
      examples: ['items.0.quantity'],
    }),
    message: Type.String({ description: 'For people', examples: ['is required'] }),
    code: OneOf(fieldCodes, { description: 'For programs' }),
  },
  { title: 'Violation' },
)

const failed = {
  code: OneOf(Object.keys(failures), { description: 'For programs' }),
  message: Type.String({ description: 'For people', examples: ['There is no such resource'] }),
  request_id: Type.String({ description: 'Equals the X-Request-Id header', examples: [exampleId] }),
}

/** `list` is the member that the violations stand in: `details` in v1, `errors` in v2. */
export const ErrorEnvelope = (list: 'details' | 'errors') => {
  const violations: TProperties = {
    [list]: Type.Optional(
      Type.Array(Violation, {
        maxItems: MAX_VIOLATIONS,
        description: 'What is wrong with single members or parameters',
      }),
    ),
  }
  return Type.Object({ error: Type.Object({ ...failed, ...violations }) }, { title: 'Error' })
}

/** An error outside every version: it never has details, and so looks alike in all of them. */
export const UnversionedError = Type.Object({ error: Type.Object(failed) }, { title: 'UnversionedError' })
