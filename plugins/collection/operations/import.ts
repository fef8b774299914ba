/** POST of rows on a collection, as NDJSON or CSV: an import, which writes all of them or none. */
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { Transaction } from '../../../drizzle/client/types.ts'
import { checkGuard } from '../../access/guards.ts'
import { isCredentialResource } from '../../auth/index.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { getRowType } from '../../http/content-type.ts'
import { suspendTimeouts } from '../../http/timeouts.ts'
import { stillRunning } from '../../idempotency/once.ts'
import type { StoredResponse } from '../../idempotency/stored-responses.ts'
import { createViolation } from '../../validation/text.ts'
import type { Handler } from '../handlers.ts'
import { buildImportQuery, ROWS_PER_COST } from '../request/import-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { discardBody, RowReader } from '../request/rows/row-reader.ts'
import { getToInternal } from '../request/selection.ts'
import { sendWritten } from '../response/response-builder.ts'
import type { OperationContext, WriteHandler } from './context.ts'
import { createImporter, type ImportCounts, type ImportRun } from './import-run.ts'
import type { WriteOperation } from './write-plan.ts'

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

export function createImportHandler(
  context: OperationContext,
  operations: Readonly<Record<'create' | 'update', WriteOperation>>,
): Handler<{ Querystring: ImportQuery }> {
  const { app, options, resource } = context
  const { database, idempotency, imports, limits } = app
  const { version } = options.representation
  const importer = createImporter(context, operations)
  const toInternal = getToInternal(resource)
  const checkRole = createCheckRole(resource, buildImportQuery)

  /** Runs the import in one transaction, once for its key. */
  const run = async (
    request: FastifyRequest<{ Querystring: ImportQuery }>,
    reader: RowReader,
    { importRun, path }: { importRun: ImportRun; path: string },
  ): Promise<StoredResponse> => {
    const { actor, query } = request
    if (!actor) throw apiError('UNAUTHORIZED')
    const isDryRun = query.dry_run === true
    const write = async (tx: Transaction): Promise<StoredResponse> => {
      await importRun.write(tx)
      const response = buildResponse(importRun.counts)
      if (isDryRun) throw new DryRun(response)
      return response
    }
    const content = {
      type: getRowType(request),
      query,
      get digest() {
        // The response of an earlier request was stored since `hasResponse`.
        if (!reader.hasEnded) throw stillRunning()
        return reader.getDigest()
      },
    }
    const key = idempotency.readKey(request, actor, `/api/v${version}${path}`, content)
    // The rows cannot be read again.
    const transaction = { maxRetries: 0 }
    // A dry run writes no key either.
    if (!key || isDryRun) {
      await importRun.readAhead(imports.readAheadBytes)
      return database.transaction(write, transaction)
    }
    const isRepeated = await idempotency.hasResponse(key)
    if (isRepeated) await reader.readRest()
    else await importRun.readAhead(imports.readAheadBytes)
    return idempotency.once(key, {
      find: async () => undefined,
      write(tx) {
        // The response has expired since.
        if (isRepeated) throw stillRunning()
        return write(tx)
      },
      options: transaction,
    })
  }

  const importRows: Handler<{ Querystring: ImportQuery }> = async (request, reply) => {
    // 1. Caller (401), query (400), the right to change (403), the length (413), the parent (404).
    const { actor, query } = request
    const type = getRowType(request)
    if (!actor || actor.credential === 'none' || !type) throw apiError('UNAUTHORIZED')
    const address = readAddress(resource, request)
    checkQuery(request, checkRole)
    const guard = app.guards.get(`${resource.name}:update`)
    if (query.on_conflict !== undefined && guard) checkGuard(actor, guard)
    const { maxBytes, maxRowBytes } = imports
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${maxBytes} bytes` })
    }
    await ensureParent(database, resource, address.parent)

    // 2. One import of the user.
    const end = imports.begin(actor.userId)
    const resumeTimeouts = suspendTimeouts(request)
    const reader = new RowReader(getBody(request), importer.createParser(type, maxRowBytes), imports)
    const conflict = query.on_conflict === undefined ? undefined : toInternal(query.on_conflict)
    const importRun = importer.createRun({ request, reply, address, reader, conflict })
    if (isCredentialResource(resource)) request.mayChangeCredentials = true
    try {
      const response = await run(request, reader, { importRun, path: address.path }).catch((error) => {
        if (error instanceof DryRun) return error.response
        throw error
      })
      return await sendWritten(request, reply, actor, response)
    } finally {
      reader.close()
      end()
      resumeTimeouts()
      const cost = Math.ceil(reader.rowCount / ROWS_PER_COST) - 1
      if (cost > 0) await limits.addCost(request, actor, cost)
    }
  }

  return (request, reply) => importRows(request, reply).finally(() => discardBody(getBody(request)))
}
