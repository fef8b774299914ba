/** What stands around the resources: meta, pagination, errors. */
import { type TProperties, Type } from '@sinclair/typebox'
import { failures, fieldCodes } from './error.ts'
import { Id, OneOf, Timestamp } from './types.ts'

const Included = Type.Object(
  {
    has_more: Type.Boolean({ description: 'Whether any parent has more than the 20 that are shown' }),
    truncated: Type.Array(Id('A parent that has more')),
  },
  { title: 'Included' },
)

export const Meta = Type.Object(
  {
    timestamp: Timestamp('The time of the reply'),
    includes: Type.Optional(Type.Record(Type.String(), Included, { description: 'By name of the relation' })),
  },
  { title: 'Meta' },
)

export const CursorPagination = Type.Object(
  {
    cursor: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'For the next page; null on the last one',
    }),
    has_more: Type.Boolean(),
  },
  { title: 'CursorPagination', additionalProperties: false },
)

export const OffsetPagination = Type.Object(
  {
    page: Type.Integer({ minimum: 1 }),
    limit: Type.Integer({ minimum: 1, maximum: 100 }),
    total: Type.Integer({ minimum: 0 }),
    total_pages: Type.Integer({ minimum: 0 }),
  },
  { title: 'OffsetPagination', additionalProperties: false },
)

export const Pagination = Type.Union([CursorPagination, OffsetPagination])

const Violation = Type.Object(
  {
    field: Type.String({
      description: 'A path from the root of the body, or a parameter',
      examples: ['items.0.quantity'],
    }),
    message: Type.String(),
    code: OneOf(fieldCodes),
  },
  { title: 'Violation' },
)

const codes = Object.keys(failures)

/** `list` is the member that the violations stand in: `details` in v1, `errors` in v2. */
export const ErrorEnvelope = (list: 'details' | 'errors') => {
  const violations: TProperties = { [list]: Type.Optional(Type.Array(Violation, { maxItems: 50 })) }
  return Type.Object(
    {
      error: Type.Object({
        code: OneOf(codes),
        message: Type.String(),
        request_id: Type.String({ description: 'Equals the X-Request-Id header' }),
        ...violations,
      }),
    },
    { title: 'Error' },
  )
}
