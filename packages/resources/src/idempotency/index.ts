/** `Idempotency-Key`: runs a write once and answers its retries with the stored response. */
import { createHash, createHmac } from 'node:crypto'
import type { Transaction } from '@resource-api/database/internal'
import { apiError } from '@resource-api/http'
import { type Actor, deriveKey, NO_USER_ID, type RunConfig } from '@resource-api/http/internal'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { configure } from 'safe-stable-stringify'
import { requestsDryRun, rollBack } from '../collection/dry-run.ts'
import { once, type Work } from './once.ts'
import {
  hasResponse,
  type IdempotencyKey,
  prune,
  publish,
  type ResultFormat,
  type WriteResponse,
} from './stored-responses.ts'

const VISIBLE = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/** Reads the header: a bare value, or a quoted string (RFC 8941, section 3.3.3). @throws ApiError 400 */
function parseKey(header: string): string {
  const key = header.startsWith('"') ? QUOTED.exec(header)?.[1]?.replaceAll(/\\(.)/g, '$1') : header
  if (key !== undefined && VISIBLE.test(key)) return key
  throw apiError('INVALID_REQUEST', {
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters, bare or in double quotes',
  })
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns the route of a request and its decoded parameters, in one form for all addresses of the same resource. */
function getAddress({ params, routeOptions }: FastifyRequest, userId: string) {
  // The router has read them from the path.
  const sent = Object.entries(params as Record<string, string>)
  const values = sent.map(([name, value]) => {
    if (value === 'me') return [name, userId]
    return [name, UUID.test(value) ? value.toLowerCase() : value]
  })
  return [routeOptions.url, values]
}

/** Serializes equal JSON to equal text, whatever the order of the fields. */
const stringifyCanonically = configure({ deterministic: true, bigint: false })

const NO_USER_MESSAGE =
  'Idempotency-Key requires a user; no admin has the email address ADMIN_EMAIL, so ADMIN_API_KEY belongs to none'

/** Stores a result as JSON. */
export const jsonFormat = <Result>(): ResultFormat<Result> => ({
  write: (result) => JSON.stringify(result) ?? '',
  read: (text) => text && JSON.parse(text),
})

function createIdempotency({ database, connectionShares, resources }: FastifyInstance, appSecret: string) {
  /** Key of the HMAC of request bodies, which may contain a password; the same on every replica. */
  const secret = deriveKey(appSecret, 'idempotency')
  const running = new Set<string>()
  const hasDeferred = resources.some(({ catalog = [] }) => catalog.some(({ isDeferrable }) => isDeferrable))
  return {
    /**
     * Reads the Idempotency-Key of a request; undefined without the header and for anonymous requests.
     * @param body what has to be the same in all requests with the key
     * @throws ApiError 400, also for a dry run; 403 without a user, under whom the response would be stored
     */
    readKey(
      request: FastifyRequest,
      { credential, userId }: Actor,
      body: unknown,
    ): IdempotencyKey | undefined {
      const { headers, method } = request
      const header = headers['idempotency-key']
      if (typeof header !== 'string' || credential === 'none') return undefined
      if (requestsDryRun(request))
        throw apiError('INVALID_REQUEST', { message: 'A dry run stores no response: omit Idempotency-Key' })
      const key = parseKey(header)
      if (userId === NO_USER_ID) throw apiError('FORBIDDEN', { message: NO_USER_MESSAGE })
      const hash = createHash('sha256')
        .update(JSON.stringify([userId, method, ...getAddress(request, userId), key]))
        .digest()
      return {
        userId,
        id: hash.toString('base64url'),
        lockId: hash.readBigInt64BE().toString(),
        getBodyHash: () =>
          createHmac('sha256', secret)
            .update(stringifyCanonically(body) ?? '')
            .digest('base64url'),
      }
    },

    /**
     * Runs a write in a transaction, on one of the user's connections; with a key at most once, and answers each retry with
     * the stored response.
     */
    async run<Found, Prepared, Result>(
      key: IdempotencyKey | undefined,
      { userId }: Pick<Actor, 'userId'>,
      work: Work<Found, Prepared, Result>,
    ): Promise<WriteResponse<Result>> {
      if (!key) {
        const prepared = await work.prepare?.(await work.find(database, false))
        const write = async (tx: Transaction) => work.write(tx, await work.find(tx, true), prepared)
        const writeAll = () =>
          work.isDryRun
            ? rollBack(database, write, work.options, hasDeferred)
            : database.transaction(write, work.options)
        return connectionShares.run(userId, writeAll, work.onQueue)
      }
      const response = await once(database, running, key, work, connectionShares)
      if (response.replayed) publish('replayed')
      return response
    },

    /** Returns whether there is a stored response of an earlier request. */
    hasResponse: (key: IdempotencyKey) => hasResponse(database, key),

    /** Deletes expired records immediately. */
    prune: () => prune(database),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    idempotency: ReturnType<typeof createIdempotency>
  }
}

async function idempotency(app: FastifyInstance, { APP_SECRET }: Pick<RunConfig, 'APP_SECRET'>) {
  app.decorate('idempotency', createIdempotency(app, APP_SECRET))
  app.repeat((isWanted) => prune(app.database, isWanted), 'expired idempotency records could not be deleted')
}

export default fp(idempotency, {
  name: 'idempotency',
  dependencies: ['errors', 'database', 'connection-shares', 'background'],
})
