/** Serves `POST /batches`: writes of one transaction. */

import {
  buildExample,
  commonFailures,
  type DocumentedResponse,
  pickHeaders,
} from '@resource-api/api/documents'
import { apiError, rewriteError, type Violation } from '@resource-api/api/errors'
import { checkRequest } from '@resource-api/api/validation'
import type { Connection } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/client'
import { parseId, type RowId } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import type { Config } from '@resource-api/http/config'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Handler } from '../definition/handlers.ts'
import { getRoleTag } from '../definition/role-schemas.ts'
import { requestsDryRun, withDryRun } from '../dry-run.ts'
import type { WriteResponse } from '../idempotency/stored-responses.ts'
import { idempotencyKey, prefer } from '../openapi/parameters.ts'
import { checkStoredBatch, prepareBatch, toEndError, writeBatch } from '../operations/batch.ts'
import {
  type BatchRequest,
  drawCreatedIds,
  type PlannedOperation,
  planBatch,
} from '../operations/batch-plan.ts'
import { runOnce } from '../operations/run-operation.ts'
import type { WriteRoutes } from '../operations/write-routes.ts'
import { respondWritten, type WrittenTexts } from '../response/response-builder.ts'
import { Batch, BatchResults } from '../schemas/batches.ts'
import { operation } from './operation.ts'

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

function describeBatch(maxOperations: number) {
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
    body: Batch(maxOperations),
    response,
    failures: [...commonFailures, 404, 412, 422],
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
function readCreatedIds(
  planned: readonly PlannedOperation[],
  { result }: WriteResponse<string>,
): (RowId | undefined)[] {
  // Written by `toBody`.
  const { data } = JSON.parse(result) as { data: { results: { location: string | null }[] } }
  return data.results.map(({ location }, i) => {
    const key = planned[i]?.route.context.resource.rowParts.key
    if (location === null || !key) return undefined
    return parseId(key, decodeURIComponent(location.slice(location.lastIndexOf('/') + 1)))
  })
}

const toBody = (results: readonly string[], isDryRun = false) =>
  `{"data":{"results":[${results.join()}]},"meta":{"timestamp":"${new Date().toISOString()}"${isDryRun ? ',"dry_run":true' : ''}}}`

function buildResponse(results: readonly WrittenTexts[], isDryRun: boolean): WriteResponse<string> {
  const result = toBody(
    results.map(({ text }) => text),
    isDryRun,
  )
  const isStored = results.every(({ text, storedText }) => storedText === text)
  const storedResult = isStored ? undefined : toBody(results.map(({ storedText }) => storedText))
  return { status: 200, location: null, etag: null, result, storedResult }
}

/** The results are written in the transaction, each when its row is written, and not again as JSON: they may have 8 MiB. */
const format = { write: (text: string) => text, read: (text: string) => text }

export async function batches(
  app: FastifyInstance,
  { BATCH_OPERATIONS: maxOperations }: Pick<Config, 'BATCH_OPERATIONS'>,
) {
  const { database, idempotency, limits, writeRoutes: routes } = app

  const handle: Handler<{ Body: { operations: readonly unknown[] } }> = async (request, reply) => {
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
    const key = idempotency.readKey(request, actor, content)

    // 2. The form of the batch (400, 422), and all of its operations (422).
    const sent: unknown = isObject(body) ? body.operations : undefined
    const isShort = Array.isArray(sent) && sent.length <= maxOperations
    const createdIds = isShort ? await drawCreatedIds(routes, database, sent) : undefined
    const batch = { request, reply, actor, ...(createdIds && { createdIds }) }
    const planned = readOperations(routes, batch, maxOperations)
    await limits.addCost(request, actor, Math.ceil(planned.length / OPERATIONS_PER_COST) - 1)

    // 3. One transaction, which a deadlock repeats once.
    request.mayChangeCredentials = planned.some(
      ({ route: { context, isCreation } }) => context.resource.isCredential && !isCreation,
    )
    const isDryRun = requestsDryRun(request)
    const work = {
      find: async () => undefined,
      checkStored(connection: Connection, stored: WriteResponse<string>) {
        const again = { ...batch, createdIds: readCreatedIds(planned, stored) }
        return checkStoredBatch(connection, planBatch(routes, again, body.operations).planned, actor)
      },
      prepare: () => prepareBatch(database, planned),
      write: async (tx: Transaction) =>
        buildResponse(await writeBatch(tx, batch, planned, isMinimal), isDryRun),
      format,
      options: { maxRetries: 1 },
    }
    const response = await runOnce(request, reply, actor, key, work).catch((error) => {
      throw toEndError(error, planned, actor)
    })
    if (isMinimal) reply.header('preference-applied', 'return=minimal')
    return respondWritten(request, reply, actor, response)
  }

  const schema = withDryRun(describeBatch(maxOperations))
  app.post(`/${NAME}`, operation({ ...schema, access: 'authenticated', config: { hasDryRun: true }, handle }))
}
