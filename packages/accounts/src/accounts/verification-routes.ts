/** Serves `POST /email-verifications`, with a Bearer token, and `PATCH /email-verifications/{id}` without credentials. */
import { toEveryRole } from '@resource-api/database'
import { apiError } from '@resource-api/http'
import { pickHeaders } from '@resource-api/http/internal'
import { operation } from '@resource-api/resources'
import type { FastifyInstance } from 'fastify'
import {
  EmailVerification,
  EmailVerificationComplete,
  EmailVerificationCreate,
} from '../schemas/email-verifications.ts'
import { accountOperation, describeAccountRoute } from './account-route.ts'

const NAME = 'email-verifications'
const ACCESS = `${NAME}:create` as const

/** The tag that groups the operations in OpenAPI. */
export const verificationsTag = {
  name: NAME,
  description: 'Proofs that users receive mail at their addresses',
}

/** Without mail, there are no such routes. */
export async function verificationRoutes(app: FastifyInstance) {
  const { accounts } = app
  if (!accounts) return

  const documented = {
    name: NAME,
    method: 'POST',
    operationId: 'createEmailVerification',
    summary: 'Request a mail to verify an email address',
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
  app.post(`/${NAME}`, {
    ...operation({
      ...describeAccountRoute(documented),
      access: ACCESS,
      security: [{ bearer: [] }],
      write: accounts.verification,
    }),
    // As for a change of the own address, the bootstrap key is no token.
    async preHandler({ actor }) {
      if (actor?.credential === 'token') return
      throw apiError('FORBIDDEN', { message: 'Verifying an email address requires a Bearer token' })
    },
  })

  const complete = accountOperation(app, {
    name: NAME,
    result: EmailVerification,
    method: 'PATCH',
    operationId: 'completeEmailVerification',
    summary: 'Verify an email address',
    description:
      "Requires no credentials but the id and the token in the link of the mail. A new address becomes the user's, which " +
      'ends all their sessions; the former address gets a mail that says so.\n\n' +
      'The error is the same (403) for a wrong token, and for a link that has expired, was used or does not exist. A ' +
      'wrong token leaves the link usable.',
    body: EmailVerificationComplete,
    success: { description: 'The address is verified', status: 'completed' },
    failures: [403, 404, 409],
    run: (request, reply, { token }, id) => accounts.completeVerification({ request, reply }, { id, token }),
  })
  app.patch(`/${NAME}/:id`, complete)
}
