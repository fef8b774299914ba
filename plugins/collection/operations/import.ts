/** POST of rows on a collection, as NDJSON or CSV: an import, which writes all of them or none. */
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { Connection, Transaction } from '../../../drizzle/client/types.ts'
import type { Actor } from '../../access/actor.ts'
import { checkGuard, type Guard } from '../../access/guards.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { CHALLENGES, createChallenge } from '../../auth/challenge.ts'
import { ensureRights } from '../../auth/ensure-rights.ts'
import { isCredentialResource, readActorAgain } from '../../auth/index.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { getRowType } from '../../http/content-type.ts'
import { suspendTimeouts } from '../../http/timeouts.ts'
import type { IdempotencyKey, StoredResponse } from '../../idempotency/stored-responses.ts'
import { BYTES_PER_COST } from '../../rate-limit/cost.ts'
import { createViolation } from '../../validation/text.ts'
import type { Handler } from '../handlers.ts'
import { buildImportQuery, ROWS_PER_COST } from '../request/import-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { discardBody } from '../request/rows/received-body.ts'
import { getToInternal } from '../request/selection.ts'
import { sendWritten } from '../response/response-builder.ts'
import type { OperationContext, WriteHandler } from './context.ts'
import { createImporter, type ImportCounts, type ImportRun } from './import-run.ts'
import type { WriteOperation } from './write-operation.ts'

interface ImportQuery {
  on_conflict?: string
  dry_run?: boolean
}

const PARAMETERS = ['on_conflict', 'dry_run'] as const

/** Rolls back the transaction of a dry run, whose response it has. */
class DryRun extends Error {
  override readonly name = 'DryRun'
  readonly response: StoredResponse

  constructor(response: StoredResponse) {
    super()
    this.response = response
  }
}

const buildResponse = (counts: ImportCounts): StoredResponse => ({
  status: 200,
  location: null,
  etag: null,
  body: JSON.stringify({ data: counts, meta: { timestamp: new Date().toISOString() } }),
})

/** Wraps the handler of a creation: a body of JSON has no parameters, and one of rows is imported. */
export const orImport =
  (create: WriteHandler, importRows: Handler<{ Querystring: ImportQuery }>): WriteHandler =>
  async (request, reply) => {
    // The query string of the route is that of both.
    const { query } = request as FastifyRequest<{ Querystring: ImportQuery }>
    if (getRowType(request)) return importRows(request as Parameters<typeof importRows>[0], reply)
    const sent = PARAMETERS.filter((name) => query[name] !== undefined)
    if (sent.length > 0) {
      const message = 'is only for imports: with the Content-Type text/csv or application/x-ndjson'
      throw invalidQuery(sent.map((name) => createViolation(name, message, 'UNKNOWN_PARAMETER')))
    }
    return create(request, reply)
  }

/** Returns the stream that the content type parser has passed on. */
const getBody = (request: FastifyRequest) => request.body as Readable

/** An import whose body has arrived. */
interface Received {
  actor: Actor
  guards: readonly Guard[]
  importRun: ImportRun
  isDryRun: boolean
  key: IdempotencyKey | undefined
}

export function createImportHandler(
  context: OperationContext,
  operations: Readonly<Record<'create' | 'update', WriteOperation>>,
): Handler<{ Querystring: ImportQuery }> {
  const { app, options, resource } = context
  const { connectionShares, database, idempotency, imports, limits } = app
  const { version } = options.representation
  const importer = createImporter(context, operations)
  const toInternal = getToInternal(resource)
  const checkRole = createCheckRole(resource, buildImportQuery)

  /** Writes the rows in one transaction, once for a key. */
  const write = ({ actor, guards, importRun, isDryRun, key }: Received): Promise<StoredResponse> => {
    const checkRights = (tx: Connection) => ensureRights(tx, actor, guards)
    const writeRows = async (tx: Transaction): Promise<StoredResponse> => {
      const response = buildResponse(await importRun.write(tx))
      await checkRights(tx)
      if (isDryRun) throw new DryRun(response)
      return response
    }
    const { transaction } = imports
    if (key) return idempotency.once(key, { find: checkRights, write: writeRows, options: transaction })
    const writeAll = () =>
      database.transaction(async (tx) => {
        await checkRights(tx)
        return writeRows(tx)
      }, transaction)
    return connectionShares.run(actor.userId, writeAll).catch((error) => {
      if (error instanceof DryRun) return error.response
      throw error
    })
  }

  const importRows: Handler<{ Querystring: ImportQuery }> = async (request, reply) => {
    // 1. Caller (401), query (400), the right to change (403), the length (413), Idempotency-Key (400), the parent (404).
    const { actor, query } = request
    const type = getRowType(request)
    if (!actor || actor.credential === 'none' || !type) throw apiError('UNAUTHORIZED')
    const address = readAddress(resource, request)
    checkQuery(request, checkRole)
    const verbs = query.on_conflict === undefined ? ['create'] : ['create', 'update']
    const guards = verbs.flatMap((verb) => app.guards.get(`${resource.name}:${verb}`) ?? [])
    for (const guard of guards) checkGuard(actor, guard)
    const { maxBytes } = imports
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${maxBytes} bytes` })
    }
    const isDryRun = query.dry_run === true
    const body = imports.createBody()
    const content = {
      type,
      query,
      get digest() {
        // Read when the body has arrived.
        return body.digest
      },
    }
    const sentKey = idempotency.readKey(request, actor, `/api/v${version}${address.path}`, content)
    // A dry run stores no response.
    const key = isDryRun ? undefined : sentKey
    await ensureParent(database, resource, address.parent)

    // 2. The only import of the user (429, 503), and its body, for which no connection of the database is held.
    const end = imports.begin(actor.userId)
    const resumeTimeouts = suspendTimeouts(request)
    const conflict = query.on_conflict === undefined ? undefined : toInternal(query.on_conflict)
    const importRun = importer.createRun({ request, reply, address, body, type, conflict })
    try {
      await body.receive(getBody(request))
      if (!(await readActorAgain(request, actor))) {
        throw createChallenge(actor.credential === 'token' ? CHALLENGES.token : CHALLENGES.key)
      }

      // 3. What is wrong with the rows themselves (422), unless the response of an earlier request is stored.
      if (!key || !(await idempotency.hasResponse(key))) await importRun.check(database)

      // 4. The transaction.
      if (isCredentialResource(resource)) request.mayChangeCredentials = true
      const received = { actor, guards, importRun, isDryRun, key }
      const response = await imports.write(() => write(received), getLifetime(reply.raw).onQueue)
      return await sendWritten(request, reply, actor, response)
    } finally {
      await body.close()
      end()
      resumeTimeouts()
      const cost = Math.max(0, Math.ceil(importRun.rowCount / ROWS_PER_COST) - 1)
      const bytesCost = Math.floor(body.bytes / BYTES_PER_COST)
      if (cost + bytesCost > 0) await limits.addCost(request, actor, cost + bytesCost)
    }
  }

  return (request, reply) => importRows(request, reply).finally(() => discardBody(getBody(request)))
}
