/** Serves `POST /webhook-endpoints/{id}/secrets`, which gives an endpoint a new secret. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Connection } from '../../drizzle/client/types.ts'
import type { Violation } from '../../schemas/error.ts'
import type { RouteAccess } from '../access/index.ts'
import { lockCaller } from '../auth/lock-caller.ts'
import type { Resource } from '../collection/compile.ts'
import type { Row } from '../collection/definition.ts'
import { describeOperation } from '../collection/openapi/operations.ts'
import { createOperationContext } from '../collection/operations/context.ts'
import { findRow } from '../collection/operations/find-row.ts'
import { recordingWriter } from '../collection/operations/recording-writer.ts'
import type { CollectionOptions } from '../collection/options.ts'
import { readObject } from '../collection/request/body.ts'
import { createQueryRefusal } from '../collection/request/query-validation.ts'
import { sendWritten } from '../collection/response/send-written.ts'
import { ajv } from '../collection/validator.ts'
import { applyVersion } from '../collection/versions/apply-version.ts'
import { invalidBody } from '../errors/index.ts'
import { readPrecondition } from '../http/preconditions.ts'
import { getRouteSchema, type Operation } from '../openapi/operation.ts'
import { getOrigin } from '../outbox/origin.ts'
import type { SecretBox } from '../webhooks/delivery/secret-box.ts'
import { createWebhookSecret } from '../webhooks/delivery/signature.ts'
import { WEBHOOK_ENDPOINTS } from './webhook-endpoints.ts'

const ACCESS: RouteAccess = `${WEBHOOK_ENDPOINTS}:update`

/** How long the former secret signs too. */
const OVERLAP_MS = 24 * 3600 * 1000

interface SecretOptions extends Omit<CollectionOptions, 'requireIfMatch'> {
  /** The resource of webhook endpoints. */
  endpoints: Resource
  secretBox: SecretBox
}

/** The operation that creates an endpoint has the same response, and differs in its path and its body. */
function describe({ endpoints, representation }: SecretOptions): Operation {
  const { published } = applyVersion(endpoints, representation.version)
  const { body: _, ...create } = describeOperation(published, 'create', { representation, isOpen: false })
  const update = describeOperation(published, 'update', { representation, isOpen: false })
  // Credentials and roles are those of a change.
  const [, access = ''] = update.description.split('\n\n')
  return {
    ...create,
    operationId: 'createWebhookSecret',
    summary: 'Create a webhook secret',
    description: `Gives the endpoint a new \`secret\`, which only this response shows. Events are signed with both secrets for 24 hours; a further secret replaces the older one. The body is empty or \`{}\`.\n\n${access}`,
    parameters: (update.parameters ?? []).filter(
      ({ in: location, name }) => location === 'path' || ['Idempotency-Key', 'If-Match'].includes(name),
    ),
    failures: [...create.failures, 404, 412],
  }
}

/** @throws ApiError 400, 422 unless the body is empty or an object without members */
function checkBody(sent: unknown): Record<string, unknown> {
  const body = sent === undefined ? {} : readObject(sent)
  const violations = Object.keys(body).map(
    (field): Violation => ({ field, message: 'is not a known field', code: 'UNKNOWN_FIELD' }),
  )
  if (violations.length > 0) throw invalidBody(violations)
  return body
}

export async function webhookSecrets(app: FastifyInstance, options: SecretOptions) {
  const { endpoints, representation, secretBox, publicUrl } = options
  const { addressing, database, idempotency } = app
  const { stores } = endpoints
  const context = createOperationContext(app, { ...options, requireIfMatch: false }, endpoints)
  const { addresses, builder } = context
  const refuseQuery = createQueryRefusal(ajv)

  const rotate = async (request: FastifyRequest, reply: FastifyReply) => {
    const address = addresses.read(request)
    const { actor, id, hasQuery } = address
    const body = checkBody(request.body)
    const path = `/api/v${representation.version}/${WEBHOOK_ENDPOINTS}/${id}/secrets`
    const key = idempotency.readKey(request, actor, path, body)
    if (hasQuery) refuseQuery(request)
    addresses.ensureUuids(id)
    // A change of the endpoint, so that a receiver's owner does not replace a secret that another has just made.
    const checkPrecondition = readPrecondition(request, false, (row: Row) => builder.getTag(request, row))

    const find = async (connection: Connection, isLocking: boolean) => {
      if (isLocking) await lockCaller(connection, actor)
      return findRow(context, connection, address, 'update', isLocking ? 'no key update' : undefined)
    }
    const write = async (connection: Connection, current: Row) => {
      checkPrecondition?.(current)
      const secret = createWebhookSecret()
      const row = await stores.store(connection, getOrigin(actor, request.id)).update(current, {
        secret_box: secretBox.encrypt(secret, id),
        previous_secret_box: current.secret_box,
        previous_secret_expires_at: new Date(Date.now() + OVERLAP_MS).toISOString(),
      })
      const { form } = addressing.getAddress(request.raw)
      return builder.buildResponse(request, reply, {
        status: 201,
        row: { ...row, secret },
        actor,
        location: `${publicUrl ?? ''}${form}/${WEBHOOK_ENDPOINTS}/${id}`,
      })
    }
    const response = key
      ? await idempotency.once(key, { find, write })
      : await database.transaction(async (tx) => write(tx, await find(tx, true)))
    return sendWritten(request, reply, actor, response)
  }

  const operation = describe(options)
  app.route({
    method: 'POST',
    url: `/${WEBHOOK_ENDPOINTS}/:id/secrets`,
    config: { access: ACCESS, operation },
    schema: getRouteSchema(operation),
    handler: app.concurrency.holdDuring(recordingWriter(database, rotate)),
  })
}
