/** Dry runs: with `?dry_run=true`, a write does all of its work in a transaction that is rolled back. */
import type { Database } from '@resource-api/database'
import type { Transaction, TransactionOptions } from '@resource-api/database/internal'
import { buildExample, type DocumentedResponse, DryRun } from '@resource-api/http/internal'
import { Timestamp } from '@resource-api/http/schemas'
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import type { WriteResponse } from '../idempotency/stored-responses.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route has the parameter `dry_run`. */
    hasDryRun?: boolean
  }
}

/** The parameter of the query string. */
export const dryRunParameter = {
  dry_run: Type.Optional(
    Type.Boolean({
      description:
        'Whether nothing is written: the response is that of the write, without `ETag` and `Location`',
      examples: [true],
      'x-component': 'DryRun',
    }),
  ),
}

/** Returns whether a request is a dry run; what is wrong with its other parameters may not be known yet. */
export function requestsDryRun(request: Pick<FastifyRequest, 'query' | 'routeOptions'>): boolean {
  const sent: unknown = Object(request.query).dry_run
  // Fastify makes the options at each access.
  return (sent === true || sent === 'true') && request.routeOptions.config.hasDryRun === true
}

const DryRunReply = Type.Object(
  {
    data: Type.Null({ description: 'A deleted resource is not shown', examples: [null] }),
    meta: Type.Object(
      { timestamp: Timestamp('The time of the response'), dry_run: DryRun },
      { title: 'DryRunMeta', description: 'Facts about the response' },
    ),
  },
  { title: 'DryRunReply', description: 'The result of the dry run of a deletion' },
)

const deletion: DocumentedResponse = {
  'x-component': 'DeletionDryRun',
  description: 'With `dry_run=true`: the resource would be deleted',
  content: {
    'application/json': {
      schema: DryRunReply,
      examples: { 'DryRunReply.whole': { value: buildExample(DryRunReply) } },
    },
  },
}

/** Adds the parameter to the schema of a route, and the response of a deletion, which otherwise has no body. */
export const withDryRun = <
  S extends { query?: TObject; response: Readonly<Record<number, DocumentedResponse>> },
>(
  schema: S,
) => ({
  ...schema,
  query: Type.Object({ ...schema.query?.properties, ...dryRunParameter }, { additionalProperties: false }),
  response: { ...(204 in schema.response && { 200: deletion }), ...schema.response },
})

/**
 * Runs work in a transaction as `database.transaction` does, and rolls it back.
 * @param hasDeferred whether there are constraints that the commit would check
 * @returns the result of the work
 */
export async function rollBack<T>(
  database: Pick<Database, 'transaction'>,
  work: (tx: Transaction) => Promise<T>,
  options?: TransactionOptions,
  hasDeferred = false,
): Promise<T> {
  let finished: { result: T } | undefined
  const end = new Error('The transaction of a dry run is rolled back')
  const run = async (tx: Transaction) => {
    const result = await work(tx)
    await tx.runHooks()
    if (hasDeferred) await tx.run('set constraints all immediate')
    finished = { result }
    throw end
  }
  await database.transaction(run, options).catch((error) => {
    if (error !== end) throw error
  })
  if (!finished) throw new Error('A dry run has no result')
  return finished.result
}

/** Returns the response of a write as that of its dry run. The tag would be that of the next write. */
export function toDryRun(response: WriteResponse): WriteResponse {
  const { status, result } = response
  // Of a batch, which has written it as JSON.
  if (typeof result === 'string') return response
  const meta = { timestamp: new Date().toISOString(), ...Object(result).meta, dry_run: true }
  return status === 204
    ? { status: 200, location: null, etag: null, result: { data: null, meta } }
    : { status, location: null, etag: null, result: { ...Object(result), meta } }
}
