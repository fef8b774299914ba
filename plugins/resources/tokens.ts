/** Tokens: signing in and staying signed in; the one collection that is only ever created. */
import { channel } from 'node:diagnostics_channel'
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isAwaited } from '../../lib/is-awaited.ts'
import { PasswordGrant, RefreshGrant, Token } from '../../schemas/tokens.ts'
import { type Grant, UserChangedError } from '../auth/tokens/sessions.ts'
import { signIn } from '../auth/tokens/sign-in.ts'
import { createBodyReader } from '../collection/request/body.ts'
import { createNoQueryReader } from '../collection/request/query-validation.ts'
import { queryOf } from '../collection/shared.ts'
import { apiError, invalidBody } from '../errors/index.ts'
import { buildExample, fixTimestamps, pickDeclared } from '../openapi/examples.ts'
import { describeResponse } from '../openapi/replies.ts'
import { addressOf } from '../rate-limit/by-address.ts'
import { createAjv } from '../validation/formats.ts'
import { isObject, readObject } from '../versioning/representation/body.ts'
import type { Representation } from '../versioning/representation/types.ts'

const TYPE = 'tokens'
const grantTypes = ['password', 'refresh_token'] as const
type GrantType = (typeof grantTypes)[number]

const ajv = createAjv()
const nothing: TObject = Type.Object({})
const reader = (input: TObject) => createBodyReader({ ajv, read: nothing, input, mode: 'create' })
const readers: Record<GrantType, ReturnType<typeof reader>> = {
  password: reader(PasswordGrant),
  refresh_token: reader(RefreshGrant),
}

const isGrantType = (value: unknown): value is GrantType => grantTypes.some((known) => known === value)

/** Which grant a body is for; nothing more can be said of one that does not tell. */
function grantTypeOf(members: unknown, prefix: string): GrantType {
  const sent = isObject(members) ? members.grant_type : undefined
  if (isGrantType(sent)) return sent
  const field = `${prefix}grant_type`
  throw invalidBody([
    sent === undefined
      ? { field, message: 'is required', code: 'REQUIRED' }
      : typeof sent === 'string'
        ? { field, message: `must be one of ${grantTypes.join(', ')}`, code: 'INVALID_VALUE' }
        : { field, message: 'must be string', code: 'INVALID_TYPE' },
  ])
}

const INVALID_PASSWORD = 'Invalid e-mail or password'

const refusals = channel('resource-api:auth:refused')

/** @param kind for who counts */
function refused(kind: GrantType, message: string) {
  if (refusals.hasSubscribers) refusals.publish({ kind })
  return apiError('UNAUTHORIZED', { message, headers: { 'WWW-Authenticate': 'Bearer realm="resource-api"' } })
}

/** What the operation is grouped by in the documents. */
export const tokensTag = { name: TYPE, description: 'Signing in, and staying signed in' }

const shape = { type: TYPE, members: Token, selectable: false }

/** The operation as OpenAPI tells it. */
function describe({ one, schemas }: Representation) {
  const grants = Type.Union([PasswordGrant, RefreshGrant], { title: 'Grant' })
  const schema = schemas.one(shape)
  const examples = {
    password: { summary: 'Signing in', value: buildExample(PasswordGrant) },
    refresh: { summary: 'Staying signed in', value: buildExample(RefreshGrant) },
  }
  const example = { type: TYPE, members: { ...(buildExample(Token) as { id: string }) } }
  return {
    tags: [TYPE],
    operationId: 'createToken',
    summary: 'Sign in, or stay signed in',
    description:
      'Needs no credentials. Sign in with `grant_type` `password`, send `access_token` as `Authorization: Bearer`, and ' +
      'before `expires_in` seconds have passed, get the next pair with `grant_type` `refresh_token`.\n\n' +
      'An unknown e-mail address and a wrong password are one answer, in the same time. A refresh token is good once: ' +
      'used again within 10 s it yields the same successor, and later it ends the session.',
    body: { content: { 'application/json': { schema: { ...grants, 'x-examples': examples } } } },
    response: {
      201: describeResponse({
        description: 'Signed in',
        schema,
        examples: {
          token: {
            summary: 'A pair of tokens',
            value: pickDeclared(fixTimestamps(one(example, {})), schema),
          },
        },
      }),
    },
    failures: [400, 401, 406, 408, 413, 414, 415, 422, 429, 431, 500, 503],
  }
}

export async function tokens(app: FastifyInstance, { representation }: { representation: Representation }) {
  const { database, passwords, sessions, accessTokens, limits, signInAddresses } = app
  const readNoQuery = createNoQueryReader(ajv)

  const begin = async (
    request: FastifyRequest,
    reply: FastifyReply,
    { email, password }: Record<string, unknown>,
  ): Promise<Grant> => {
    const passwordsFor = (user: string) => passwords.for(user, () => isAwaited(reply))
    const user = await limits.passwordGrant(request, String(email), () =>
      signIn(database, passwordsFor, String(email), String(password)),
    )
    if (!user) throw refused('password', INVALID_PASSWORD)
    const origin = { ip: request.ip, userAgent: request.headers['user-agent'] }
    const grant = await sessions.begin(user, origin).catch((error) => {
      throw error instanceof UserChangedError ? refused('password', INVALID_PASSWORD) : error
    })
    await signInAddresses.remember(user.id, { account: String(email), address: addressOf(request) })
    return grant
  }

  const refresh = async (request: FastifyRequest, body: Record<string, unknown>): Promise<Grant> => {
    const text = String(body.refresh_token)
    const owner = await sessions.ownerOf(text)
    const grant = await limits.refreshGrant(request, owner, () => sessions.refresh(text))
    if (!grant) throw refused('refresh_token', 'Invalid or expired refresh token')
    return grant
  }

  const create = async (request: FastifyRequest, reply: FastifyReply) => {
    const sent = readObject(request.body)
    readNoQuery(queryOf(request), request.originalUrl)
    const { members, prefix, violations } = representation.body(sent, TYPE, undefined)
    if (violations.length > 0) throw invalidBody(violations)
    const type = grantTypeOf(members, prefix)
    const body = readers[type].read(members, prefix)
    const grant = type === 'password' ? await begin(request, reply, body) : await refresh(request, body)
    const access = accessTokens.issue(grant)
    reply.code(201).header('Cache-Control', 'no-store')
    const issued = {
      id: access.id,
      token_type: 'Bearer',
      access_token: access.text,
      expires_in: access.expiresIn,
      refresh_token: grant.refreshToken,
      refresh_expires_in: grant.refreshExpiresIn,
      session_id: grant.sessionId,
      user_id: grant.userId,
    }
    return representation.one({ type: TYPE, members: issued }, {})
  }

  app.setValidatorCompiler(() => () => true)
  app.route({
    method: 'POST',
    url: '/tokens',
    config: { access: 'public' },
    schema: describe(representation),
    handler: create,
    // Whatever it failed for: 429 comes before it where too many have failed so.
    errorHandler: async (error, request) => {
      await limits.unread(request)
      throw error
    },
  })
}
