/** Serves `POST /batches`: writes of one transaction. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Connection, Transaction } from '../../drizzle/client/types.ts'
import { isObject } from '../../lib/is-object.ts'
import { Batch, BatchResults } from '../../schemas/batches.ts'
import type { Violation } from '../../schemas/error.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import { changesCredentials } from '../auth/index.ts'
import type { Config } from '../config/settings.ts'
import { apiError, rewriteError } from '../errors/index.ts'
import type { StoredResponse } from '../idempotency/stored-responses.ts'
import { buildExample } from '../openapi/examples.ts'
import { pickHeaders } from '../openapi/headers.ts'
import { commonFailures, type DocumentedResponse, NO_QUERY } from '../openapi/operation.ts'
import { checkRequest } from '../validation/index.ts'
import type { Representation } from '../versioning/representation/types.ts'
import { idempotencyKey, prefer } from './openapi/parameters.ts'
import { BatchRun } from './operations/batch.ts'
import { type BatchRequest, planBatch } from './operations/batch-plan.ts'
import { recordingWriter } from './operations/context.ts'
import type { WriteRoutes } from './operations/write-routes.ts'
import { sendWritten, type WrittenTexts } from './response/response-builder.ts'
import { getRoleTag } from './role-schemas.ts'

const NAME = 'batches'

/** The tag that groups the operation in OpenAPI. */
export const batchesTag = { name: NAME, description: 'Many writes in one transaction' }

/** Operations that count as one request. */
const OPERATIONS_PER_COST = 10

/** Returns whether the client wants no resources back (RFC 7240, section 4.2). */
const wantsMinimal = (sent: string | string[] | undefined): boolean =>
  [sent ?? []]
    .flat()
    .some((header) => header.split(',').some((each) => /^\s*return\s*=\s*"?minimal"?\s*(?:;|$)/i.test(each)))

function buildRouteSchema(maxOperations: number) {
  const response: Record<number, DocumentedResponse> = {
    200: {
      description: 'The results, in the order of the operations',
      headers: pickHeaders('Idempotency-Replayed', 'Preference-Applied'),
      content: {
        'application/json': {
          schema: BatchResults,
          examples: { 'BatchReply.whole': { value: buildExample(BatchResults) } },
        },
      },
    },
  }
  return {
    operationId: 'createBatch',
    summary: 'Run many writes in one transaction',
    tags: [NAME],
    description:
      'All operations are written, or none. Each is checked as a request of its own would be, with the scopes and access ' +
      'rules of its collection.\n\n' +
      'What is wrong with the operations themselves is reported for all of them (422); otherwise, the first that fails ' +
      'decides status and code. The fields of an error begin with the operation, such as `operations.3.body.email`.\n\n' +
      `A batch counts as one request per ${OPERATIONS_PER_COST} operations in the rate limit.`,
    headers: Type.Object({ ...idempotencyKey, ...prefer }),
    querystring: NO_QUERY,
    body: Batch(maxOperations),
    response,
    failures: [...commonFailures, 404, 409, 412, 413, 415, 422, 428],
  }
}

const getIndex = ({ field }: Violation) => Number(field.split('.', 2)[1] ?? -1)

/**
 * Plans the operations of a batch.
 * @throws ApiError 400 for a body that is no object; 422 for all that is wrong with the operations, in their order
 */
function readOperations(routes: WriteRoutes, batch: BatchRequest, maxOperations: number) {
  const { request } = batch
  let plans: ReturnType<typeof planBatch> = { planned: [], violations: [] }
  try {
    checkRequest(request, () => {
      const operations = isObject(request.body) ? request.body.operations : undefined
      if (!Array.isArray(operations) || operations.length > maxOperations) return []
      plans = planBatch(routes, batch, operations)
      return plans.violations
    })
  } catch (error) {
    throw rewriteError(error, ({ violations }) => ({
      violations: violations.toSorted((a, b) => getIndex(a) - getIndex(b)),
    }))
  }
  return plans.planned
}

/** Returns the ids of the resources that a stored batch has created, by the indexes of its operations. */
function readCreatedIds({ body }: StoredResponse): (string | undefined)[] {
  // Written by `toBody`.
  const { data } = JSON.parse(body) as { data: { results: { location: string | null }[] } }
  return data.results.map(({ location }) => location?.slice(location.lastIndexOf('/') + 1))
}

const toBody = (results: readonly string[]) =>
  `{"data":{"results":[${results.join()}]},"meta":{"timestamp":"${new Date().toISOString()}"}}`

function buildResponse(results: readonly WrittenTexts[]): StoredResponse {
  const body = toBody(results.map(({ text }) => text))
  const isStored = results.every(({ text, storedText }) => storedText === text)
  const storedBody = isStored ? undefined : toBody(results.map(({ storedText }) => storedText))
  return { status: 200, location: null, etag: null, body, storedBody }
}

interface BatchOptions extends Pick<Config, 'BATCH_OPERATIONS'> {
  representation: Representation
}

export async function batches(app: FastifyInstance, config: BatchOptions) {
  const { BATCH_OPERATIONS: maxOperations } = config
  const { concurrency, connectionShares, database, idempotency, limits, writeRoutes: routes } = app
  const keyPath = `/api/v${config.representation.version}/${NAME}`

  app.withTypeProvider<TypeBoxTypeProvider>().route({
    method: 'POST',
    url: `/${NAME}`,
    config: { access: 'authenticated' },
    schema: buildRouteSchema(maxOperations),
    attachValidation: true,
    handler: concurrency.holdDuring(
      recordingWriter<{ Body: { operations: readonly unknown[] } }>(database, async (request, reply) => {
        // 1. Caller (401), Idempotency-Key (400).
        const { actor, body, headers } = request
        if (!actor) throw apiError('UNAUTHORIZED')
        const isMinimal = wantsMinimal(headers.prefer)
        const content = {
          body,
          isMinimal,
          /** The results have the fields that the role can read; undefined if it can read all. */
          get roleTags() {
            const tags = planned.map(({ route }) => getRoleTag(route.context.resource, actor))
            return tags.some((tag) => tag !== '') ? tags : undefined
          },
        }
        const key = idempotency.readKey(request, actor, keyPath, content)

        // 2. The form of the batch (400, 422), and all of its operations (422).
        const batch = { request, reply, actor }
        const planned = readOperations(routes, batch, maxOperations)
        await limits.addCost(request, actor, Math.ceil(planned.length / OPERATIONS_PER_COST) - 1)

        // 3. One transaction, which a deadlock repeats once.
        request.mayChangeCredentials = planned.some(({ route }) => changesCredentials(route.access))
        const run = new BatchRun(batch, planned, isMinimal)
        const options = { maxRetries: 1 }
        const prepare = () => run.prepare(database)
        const write = async (tx: Transaction) => buildResponse(await run.write(tx))
        const checkStored = (connection: Connection, stored: StoredResponse) => {
          const again = { ...batch, createdIds: readCreatedIds(stored) }
          const { planned: repeated } = planBatch(routes, again, body.operations)
          return new BatchRun(again, repeated, isMinimal).checkStored(connection)
        }
        const { onQueue } = getLifetime(reply.raw)
        const writeAll = () => database.transaction(write, options)
        const work = { find: async () => undefined, checkStored, prepare, write, options, onQueue }
        const response = key
          ? await idempotency.once(key, work)
          : await prepare().then(() => connectionShares.run(actor.userId, writeAll, onQueue))
        if (isMinimal) reply.header('preference-applied', 'return=minimal')
        return sendWritten(request, reply, actor, response)
      }),
    ),
  })
}
