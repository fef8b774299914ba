/** Serves `POST /webhook-endpoints/{id}/secrets`, which gives an endpoint a new secret. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Violation } from '../../schemas/error.ts'
import { allows, getRule, type RouteAccess } from '../access/index.ts'
import { lockCaller } from '../auth/lock-caller.ts'
import type { Resource } from '../collection/compile.ts'
import type { Row } from '../collection/definition.ts'
import { describeOperation } from '../collection/openapi/operations.ts'
import { readObject } from '../collection/request/body.ts'
import { createQueryRefusal } from '../collection/request/query-validation.ts'
import { createNotFound, createResourceAddresses } from '../collection/request/resource-address.ts'
import { createResponseBuilder } from '../collection/response-builder.ts'
import { ajv } from '../collection/validator.ts'
import { applyVersion } from '../collection/versions/apply-version.ts'
import { recordingWriter } from '../collection/write/handlers.ts'
import { createRunWrite } from '../collection/write/strategies.ts'
import { invalidBody } from '../errors/index.ts'
import { readPrecondition } from '../http/preconditions.ts'
import { getRouteSchema, type Operation } from '../openapi/operation.ts'
import { getOrigin } from '../outbox/origin.ts'
import type { Representation } from '../versioning/representation/types.ts'
import type { SecretBox } from '../webhooks/delivery/secret-box.ts'
import { createWebhookSecret } from '../webhooks/delivery/signature.ts'
import { WEBHOOK_ENDPOINTS } from './webhook-endpoints.ts'

const ACCESS: RouteAccess = `${WEBHOOK_ENDPOINTS}:update`

/** How long the former secret signs too. */
const OVERLAP_MS = 24 * 3600 * 1000

interface SecretOptions {
  representation: Representation
  /** The resource of webhook endpoints. */
  endpoints: Resource
  secretBox: SecretBox
  publicUrl: string | undefined
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
  const { addressing, database, idempotency, outbox, refusal } = app
  const { access, columns, select, stores } = endpoints
  const versioned = applyVersion(endpoints, representation.version)
  const addresses = createResourceAddresses(endpoints)
  const builder = createResponseBuilder(versioned, representation)
  const refuseQuery = createQueryRefusal(ajv)
  const runWrite = createRunWrite(database, new Set(Object.keys(columns)))

  const rotate = async (request: FastifyRequest, reply: FastifyReply) => {
    const { actor, id, hasQuery } = addresses.read(request)
    const body = checkBody(request.body)
    const header = request.headers['idempotency-key']
    const path = `/api/v${representation.version}/${WEBHOOK_ENDPOINTS}/${id}/secrets`
    const keyedWrite =
      typeof header === 'string'
        ? idempotency.createKeyedWrite(header, { userId: actor.userId, method: 'POST', path }, body)
        : undefined
    if (hasQuery) refuseQuery(request)
    addresses.ensureUuids(id)
    // A change of the endpoint, so that a receiver's owner does not replace a secret that another has just made.
    const checkPrecondition = readPrecondition(request, false, (row: Row) => builder.getTag(request, row))

    const {
      status,
      location,
      etag,
      body: text,
      replayed,
    } = await runWrite({
      keyedWrite,
      updateUnread: undefined,
      isOneStatement: false,
      async admit(connection, isLocking) {
        if (isLocking) await lockCaller(connection, actor)
        const row = await select.whole(connection, id, isLocking ? 'no key update' : undefined)
        if (!row) throw createNotFound(endpoints, id)
        if (allows(getRule(access, 'update', actor), row, actor)) return row
        throw refusal(() => createNotFound(endpoints, id))
      },
      async act(connection, current) {
        checkPrecondition?.(current)
        const secret = createWebhookSecret()
        const row = await stores.store(connection, getOrigin(actor, request.id)).update(current, {
          secret_box: secretBox.encrypt(secret, id),
          previous_secret_box: current.secret_box,
          previous_secret_expires_at: new Date(Date.now() + OVERLAP_MS).toISOString(),
        })
        return { ...row, secret }
      },
      isUnchanged: () => false,
      respond(row) {
        const { form } = addressing.getAddress(request.raw)
        return builder.buildResponse(request, reply, {
          status: 201,
          row,
          actor,
          location: `${publicUrl ?? ''}${form}/${WEBHOOK_ENDPOINTS}/${id}`,
        })
      },
    })
    outbox.publish()
    reply.code(status).header('etag', etag).header('cache-control', 'no-store')
    if (location !== null) reply.header('location', location)
    if (replayed) reply.header('idempotency-replayed', 'true')
    reply.header('content-type', 'application/json; charset=utf-8')
    return text
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
