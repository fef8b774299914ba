/** Serves `POST /password-resets` and `PATCH /password-resets/{id}`, which require no credentials. */
import type { FastifyInstance } from 'fastify'
import { PasswordReset, PasswordResetComplete, PasswordResetCreate } from '../schemas/password-resets.ts'
import { accountOperation } from './account-route.ts'

const NAME = 'password-resets'

/** The tag that groups the operations in OpenAPI. */
export const resetsTag = { name: NAME, description: 'Forgotten passwords, and invitations' }

/** Without mail, there are no such routes. */
export async function resetRoutes(app: FastifyInstance) {
  const { accounts } = app
  if (!accounts) return
  const common = { name: NAME, result: PasswordReset }

  const start = accountOperation(app, {
    ...common,
    method: 'POST',
    operationId: 'createPasswordReset',
    summary: 'Request a mail to reset a password',
    description:
      'Requires no credentials. If an active user has the address, they get a mail with a link that can be used once, ' +
      'for 30 minutes. An address has at most 5 such links; further requests send none.\n\n' +
      'The response is the same, and takes the same time, whether a user has the address or not.',
    body: PasswordResetCreate,
    success: { description: 'Requested', status: 'pending' },
    failures: [],
    run: (_request, _reply, { email }) => accounts.requestReset(email),
  })

  const complete = accountOperation(app, {
    ...common,
    method: 'PATCH',
    operationId: 'completePasswordReset',
    summary: 'Set a new password',
    description:
      'Requires no credentials but the id and the token in the link of the mail, which may be that of an invitation. Ends ' +
      'all sessions of the user, and verifies the email address; if it was not verified before, deletes all API keys too.\n\n' +
      'The error is the same (403) for a wrong token, and for a link that has expired, was used or does not exist. A ' +
      'wrong token or a password that is refused (422) leaves the link usable.',
    body: PasswordResetComplete,
    success: { description: 'The password is set', status: 'completed' },
    failures: [403, 404],
    run: (request, reply, fields, id) => accounts.completeReset(request, reply, { ...fields, id }),
  })

  app.post(`/${NAME}`, start)
  app.patch(`/${NAME}/:id`, complete)
}
