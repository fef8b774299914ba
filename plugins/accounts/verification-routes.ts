/** Serves `POST /email-verifications`, with a Bearer token, and `PATCH /email-verifications/{id}` without credentials. */
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Transaction } from '../../drizzle/client/types.ts'
import {
  EmailVerification,
  EmailVerificationComplete,
  EmailVerificationCreate,
} from '../../schemas/email-verifications.ts'
import { toEveryRole } from '../../schemas/roles.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import { idempotencyKey } from '../collection/openapi/parameters.ts'
import { getSerializer, sendWritten } from '../collection/response/response-builder.ts'
import { apiError, prefixFields } from '../errors/index.ts'
import { pickHeaders } from '../openapi/headers.ts'
import { checkRequest } from '../validation/index.ts'
import { representSchema } from '../versioning/represent-routes.ts'
import type { Representation, SentBody } from '../versioning/representation/types.ts'
import { buildRouteSchema, registerAccountRoute } from './account-route.ts'
import type { VerificationRequest } from './verifications.ts'

const NAME = 'email-verifications'
const ACCESS = `${NAME}:create` as const

/** The tag that groups the operations in OpenAPI. */
export const verificationsTag = {
  name: NAME,
  description: 'Proofs that users receive mail at their addresses',
}

/** Without mail, there are no such routes. */
export async function verificationRoutes(
  app: FastifyInstance,
  { representation }: { representation: Representation },
) {
  const { accounts, concurrency, connectionShares, database, idempotency } = app
  if (!accounts) return
  const keyPath = `/api/v${representation.version}/${NAME}`

  const create = async (request: FastifyRequest<{ Body: unknown }>, reply: FastifyReply) => {
    const { actor } = request
    if (!actor) throw apiError('UNAUTHORIZED')
    // As for a change of the own address, the bootstrap key is no token.
    if (actor.credential !== 'token') {
      throw apiError('FORBIDDEN', { message: 'Verifying an e-mail address requires a Bearer token' })
    }
    const key = idempotency.readKey(request, actor, keyPath, request.body)
    checkRequest(request)
    // Validated by the schema of the route.
    const sent = request.body as SentBody<VerificationRequest>
    const { members: fields, prefix } = representation.body(sent)
    const plan = accounts.planVerification(request, reply, actor, fields)
    const serialize = getSerializer(reply, 201)
    const write = async (
      tx: Transaction,
      ...found: [Parameters<typeof plan.write>[1], string | null | undefined]
    ) => {
      const members = await plan.write(tx, ...found)
      const body = serialize(representation.one({ type: NAME, members: { ...members } }))
      return { status: 201, location: null, etag: null, body }
    }
    const { onQueue } = getLifetime(reply.raw)
    const writeOnce = async () => {
      const prepared = await plan.prepare(await plan.find(database, false))
      const writeAll = () =>
        database.transaction(async (tx) => write(tx, await plan.find(tx, true), prepared))
      return connectionShares.run(actor.userId, writeAll, onQueue)
    }
    try {
      const response = await (key
        ? idempotency.once(key, { find: plan.find, prepare: plan.prepare, write, onQueue })
        : writeOnce())
      return await sendWritten(request, reply, actor, response)
    } catch (error) {
      throw prefixFields(error, prefix)
    }
  }

  const documented = {
    name: NAME,
    method: 'POST',
    operationId: 'createEmailVerification',
    summary: 'Request a mail to verify an e-mail address',
    description:
      'Requires a Bearer token; API keys are not accepted. The mail has a link that can be used once, for 24 hours; a ' +
      'later one to another address voids it. An address has at most 5 such links; further requests send none.\n\n' +
      "A new address, which needs `current_password`, becomes the user's when the link is used.",
    body: EmailVerificationCreate,
    result: EmailVerification,
    success: {
      description: 'Requested',
      status: 'pending',
      headers: pickHeaders('Idempotency-Replayed'),
    },
    failures: [401, 403, 409],
  } as const
  app.guards.set(ACCESS, { rules: toEveryRole(true), credential: null })
  app.route({
    method: 'POST',
    url: `/${NAME}`,
    config: { access: ACCESS },
    schema: {
      ...representSchema(buildRouteSchema(documented), NAME, false, representation),
      security: [{ bearer: [] }],
      headers: Type.Object(idempotencyKey),
    },
    attachValidation: true,
    handler: concurrency.holdDuring(create),
  })

  registerAccountRoute(app, {
    name: NAME,
    result: EmailVerification,
    method: 'PATCH',
    operationId: 'completeEmailVerification',
    summary: 'Verify an e-mail address',
    description:
      "Requires no credentials but the id and the token in the link of the mail. A new address becomes the user's, which " +
      'ends all their sessions; the former address gets a mail that says so.\n\n' +
      'The error is the same (403) for a wrong token, and for a link that has expired, was used or does not exist. A ' +
      'wrong token leaves the link usable.',
    body: EmailVerificationComplete,
    success: { description: 'The address is verified', status: 'completed' },
    failures: [403, 404, 409],
    run: (request, _reply, { token }, id) => accounts.completeVerification(request, { id, token }),
  })
}
