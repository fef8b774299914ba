/** The schemas of batches: the operations that a client sends, and their results. */
import { DryRun } from '@resource-api/api/results'
import { Integer, OneOf, OrNull, Shown, Text, Timestamp } from '@resource-api/api/schemas'
import { type TObject, Type } from '@sinclair/typebox'

/** Characters of an operation's path. */
export const MAX_PATH_LENGTH = 8_192

export const batchMethods = ['POST', 'PUT', 'PATCH', 'DELETE'] as const

const JsonObject = (description: string, example: object) =>
  Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    additionalProperties: true,
    description,
    examples: [example],
  })

export const Operation = Type.Object(
  {
    method: OneOf(batchMethods, { description: 'The method of the request' }),
    path: Text({
      minLength: 1,
      maxLength: MAX_PATH_LENGTH,
      description:
        'The path of the collection or resource, without version and query. `$n` stands for the id of the resource that ' +
        'operation n creates, counted from 0',
      examples: ['/users'],
    }),
    body: Type.Optional(
      JsonObject('The body of the request. `$n` may stand for each id in it', {
        name: 'Grace Hopper',
        email: 'grace@example.com',
      }),
    ),
    if_match: Type.Optional(
      Text({
        minLength: 1,
        maxLength: 1_000,
        description: 'The header If-Match of the request; not for an operation that creates a resource',
        examples: ['"3-qHXEPvBzWe2L"'],
      }),
    ),
  },
  {
    title: 'BatchOperation',
    description: 'A write, as a request of its own would be',
    additionalProperties: false,
  },
)

/** @param maxOperations of one batch */
export const Batch = (maxOperations: number) =>
  Type.Object(
    {
      operations: Type.Array(Operation, {
        minItems: 1,
        maxItems: maxOperations,
        description: 'The operations, in the order in which they run',
      }),
    },
    {
      title: 'Batch',
      description: 'Writes of one transaction',
      additionalProperties: false,
      examples: [
        {
          operations: [
            { method: 'POST', path: '/users', body: { name: 'Grace Hopper', email: 'grace@example.com' } },
            { method: 'POST', path: '/user-profiles', body: { user_id: '$0', display_name: 'Grace' } },
          ],
        },
      ],
    },
  )

const Result = Type.Object(
  {
    status: Integer(200, 204, { description: 'The status of the response', examples: [201] }),
    location: OrNull(
      Shown('The header Location of the response', '/api/v1/users/0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'),
    ),
    etag: OrNull(Shown('The header ETag of the response', '"1-qHXEPvBzWe2L"')),
    body: OrNull(
      JsonObject(
        'The resource, without its envelope; null after a DELETE and with `Prefer: return=minimal`',
        { id: '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f', name: 'Grace Hopper', email: 'grace@example.com' },
      ),
    ),
  },
  { title: 'BatchResult', description: 'What the operation alone would have responded with' },
)

export const BatchResults: TObject = Type.Object(
  {
    data: Type.Object(
      {
        results: Type.Array(Result, {
          maxItems: 10_000,
          description: 'The results, in the order of the operations',
        }),
      },
      { title: 'BatchResults', description: 'The results of a batch' },
    ),
    meta: Type.Object(
      { timestamp: Timestamp('The time of the response'), dry_run: DryRun },
      { title: 'BatchMeta', description: 'Facts about the response' },
    ),
  },
  { title: 'BatchReply', description: 'The results of a batch' },
)
