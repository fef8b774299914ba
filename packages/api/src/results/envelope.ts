/** The schemas around the resources of a response: meta, pagination and errors. */
import { type TProperties, Type } from '@sinclair/typebox'
import { failureCodes, fieldCodes, MAX_VIOLATIONS } from '../errors/codes.ts'
import { exampleId, Id, Integer, MAX_INTEGER, OneOf, OrNull, Shown, Timestamp } from '../schemas/types.ts'

const Included = Type.Object(
  {
    has_more: Type.Boolean({
      description: 'Whether any resource has more related resources than those shown',
      examples: [false],
    }),
    truncated: Type.Array(Id('The id of a resource'), {
      maxItems: 100,
      description: 'The ids of the resources with more related resources than those shown',
    }),
  },
  { title: 'Included', description: 'Whether an included relation is complete' },
)

/** The member of `meta` after a dry run. */
export const DryRun = Type.Optional(
  Type.Literal(true, { description: 'Present after a dry run: nothing was written', examples: [true] }),
)

export const Meta = Type.Object(
  {
    timestamp: Timestamp('The time of the response'),
    includes: Type.Optional(
      Type.Unsafe<Record<string, { has_more: boolean; truncated: string[] }>>({
        type: 'object',
        additionalProperties: Included,
        description: 'For each included to-many relation, by its name',
      }),
    ),
    dry_run: DryRun,
  },
  { title: 'Meta', description: 'Facts about the response' },
)

const cursor = {
  cursor: OrNull(Shown('The cursor of the next page; null on the last page', 'eyJhZnRlciI6WyIyMDI2Il19')),
  has_more: Type.Boolean({ description: 'Whether there is a next page', examples: [true] }),
}

const offset = {
  page: Integer(1, MAX_INTEGER, { description: 'The page number, from 1', examples: [1] }),
  limit: Integer(1, 100, { description: 'The maximum number of resources on a page', examples: [20] }),
  total: Integer(0, MAX_INTEGER, { description: 'The number of resources', examples: [42] }),
  total_pages: Integer(0, MAX_INTEGER, { description: 'The number of pages', examples: [3] }),
}

const CursorPagination = Type.Object(cursor, {
  title: 'CursorPagination',
  description: 'Pagination by cursor, which is the default',
  additionalProperties: false,
})
const OffsetPagination = Type.Object(offset, {
  title: 'OffsetPagination',
  description: 'Pagination by page number, which `page` in the request selects',
  additionalProperties: false,
})

/**
 * Either pagination. The serializer gets one object with the fields of both: for a union, it would validate each value
 * to choose a type.
 */
export const Pagination = Type.Partial(Type.Object({ ...cursor, ...offset }), {
  'x-documented': Type.Union([CursorPagination, OffsetPagination], {
    title: 'Pagination',
    description: 'By page number if the request has `page`, else by cursor',
  }),
})

const Violation = Type.Object(
  {
    field: Shown(
      'The path of a field from the root of the body, or the name of a query parameter',
      'items.0.quantity',
    ),
    message: Shown('A message for humans', 'is required'),
    code: OneOf(fieldCodes, { title: 'ViolationCode', description: 'A code for programs' }),
  },
  { title: 'Violation', description: 'An invalid field or parameter' },
)

/** @param list the field that holds the violations: `details` in v1, `errors` in v2 */
export const ErrorEnvelope = (list: 'details' | 'errors') => {
  const violations: TProperties = {
    [list]: Type.Optional(
      Type.Array(Violation, { maxItems: MAX_VIOLATIONS, description: 'The invalid fields or parameters' }),
    ),
  }
  const error = Type.Object(
    {
      code: OneOf(failureCodes, { title: 'ErrorCode', description: 'A code for programs' }),
      message: Shown('A message for humans', 'Resource not found'),
      request_id: Type.String({ description: 'The value of the X-Request-Id header', examples: [exampleId] }),
      ...violations,
    },
    { title: 'ErrorObject', description: 'The reason of the failure' },
  )
  return Type.Object({ error }, { title: 'ApiError', description: 'The body of every error response' })
}
