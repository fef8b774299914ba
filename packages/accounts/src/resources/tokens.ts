/** Serves `POST /tokens`, which signs a user in or refreshes a session. */
import { refuseCredential, refuseUnverified } from '@resource-api/api/access'
import { buildFieldExamples } from '@resource-api/api/documents'
import { getLifetime } from '@resource-api/api/requests'
import { exampleId } from '@resource-api/api/schemas'
import { getClientIp } from '@resource-api/http/internal'
import { operation } from '@resource-api/resources'
import { toBodySchema } from '@resource-api/resources/internal'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type SessionGrant, signIn, UserChangedError } from '../auth/tokens/sessions.ts'
import { PasswordGrant, RefreshGrant, Token } from '../schemas/tokens.ts'

const TYPE = 'tokens'
const grants = [PasswordGrant, RefreshGrant].map((grant) => toBodySchema(grant, 'create'))

/** The grant type selects the schema of a body. */
const Grant = Type.Unsafe<Static<typeof PasswordGrant> | Static<typeof RefreshGrant>>(
  Type.Union(grants, {
    title: 'Grant',
    description: 'A password or a refresh token',
    discriminator: {
      propertyName: 'grant_type',
      mapping: {
        password: '#/components/schemas/PasswordGrant',
        refresh_token: '#/components/schemas/RefreshGrant',
      },
    },
  }),
)

const WRONG_PASSWORD = 'Invalid email address or password'

const refusePassword = () => refuseCredential('password', { message: WRONG_PASSWORD })

/** The tag that groups the operation in OpenAPI. */
export const tokensTag = { name: TYPE, description: 'Signing in and refreshing a session' }

export async function tokens(app: FastifyInstance) {
  const { database, passwords, sessions, accessTokens, limits, outbox, signInAddresses } = app

  const signInWithPassword = async (
    request: FastifyRequest,
    reply: FastifyReply,
    { email, password }: Static<typeof PasswordGrant>,
  ): Promise<SessionGrant> => {
    const getPasswords = (account: string) => passwords.for(account, getLifetime(reply.raw))
    const user = await limits.countPasswordGrant(request, email, () =>
      signIn(database, getPasswords, email, password),
    )
    if (!user) throw refusePassword()
    const origin = { ip: request.ip, userAgent: request.headers['user-agent'], requestId: request.id }
    const grant = await sessions.create(user, origin).catch((error) => {
      throw error instanceof UserChangedError ? refusePassword() : error
    })
    await signInAddresses.record(user.id, { account: email, address: getClientIp(request) }, request.ip)
    return grant
  }

  const refresh = async (
    request: FastifyRequest,
    { refresh_token }: Static<typeof RefreshGrant>,
  ): Promise<SessionGrant> => {
    const userId = await sessions.findOwner(refresh_token)
    // A refresh counts for the user of the session.
    if (userId !== undefined) await limits.countUser(request, { userId })
    const grant = userId === undefined ? undefined : await sessions.refresh(refresh_token, request.id)
    if (grant) return grant
    await limits.countFailure(request)
    throw refuseCredential('refresh_token', { message: 'Invalid or expired refresh token' })
  }

  const run = async (request: FastifyRequest, reply: FastifyReply, body: Static<typeof Grant>) => {
    const grant =
      body.grant_type === 'password'
        ? await signInWithPassword(request, reply, body)
        : await refresh(request, body)
    outbox.publish()
    const accessToken = accessTokens.issue(grant)
    reply.header('cache-control', 'no-store')
    return {
      id: accessToken.id,
      token_type: 'Bearer',
      access_token: accessToken.text,
      expires_in: accessToken.expiresIn,
      refresh_token: grant.refreshToken,
      refresh_expires_in: grant.refreshExpiresIn,
      session_id: grant.sessionId,
      user_id: grant.userId,
    }
  }

  app.post('/tokens', {
    ...operation({
      access: 'public',
      type: TYPE,
      operationId: 'createToken',
      summary: 'Sign in or refresh a session',
      tags: [TYPE],
      description:
        'Requires no credentials. Sign in with `grant_type` `password`, send `access_token` as `Authorization: Bearer`, ' +
        'and get the next pair with `grant_type` `refresh_token` before `expires_in` seconds have passed.\n\n' +
        'The response is the same, and takes the same time, for an unknown email address and for a wrong password. A ' +
        'refresh token can be used once: a second use within 10 s returns the same successor, a later one ends the session.\n\n' +
        'If the server requires a verified email address, the response without one is 403.',
      body: Grant,
      response: {
        201: {
          description: 'Signed in',
          content: {
            'application/json': {
              schema: Token,
              examples: {
                'Token.whole': {
                  summary: 'A pair of tokens',
                  value: { ...buildFieldExamples(Token.properties), id: exampleId },
                },
              },
            },
          },
        },
      },
      failures: [400, 401, 403, 422, 429],
      messages: { 401: WRONG_PASSWORD, 403: refuseUnverified().message },
      run: ({ request, reply, body }) => run(request, reply, body),
    }),
    // A request that failed before its grant type was read is counted here, which may replace the error with a 429.
    errorHandler: async (error, request) => {
      if (!request.limitHeaders) await limits.countAnonymous(request)
      throw error
    },
  })
}
