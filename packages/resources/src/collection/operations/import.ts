/** POST of rows on a collection, as NDJSON or CSV: an import, which writes all of them or none. */
import type { Readable } from 'node:stream'
import type { Connection } from '@resource-api/database'
import { SqlError, type Transaction } from '@resource-api/database/internal'
import { apiError } from '@resource-api/http'
import {
  BYTES_PER_COST,
  CHALLENGES,
  checkGuard,
  createChallenge,
  disconnected,
  type FieldMappings,
  getLifetime,
  getRowType,
  type RowType,
  suspendTimeouts,
} from '@resource-api/http/internal'
import type { FastifyRequest } from 'fastify'
import { jsonFormat } from '../../idempotency/index.ts'
import type { WriteResponse } from '../../idempotency/stored-responses.ts'
import type { Handler } from '../handlers.ts'
import { buildImportQuery, ROWS_PER_COST } from '../request/import-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { parseCsv } from '../request/rows/csv.ts'
import { parseNdjson } from '../request/rows/ndjson.ts'
import { readPieces, type SentRows } from '../request/rows/read-pieces.ts'
import { discardBody } from '../request/rows/received-body.ts'
import { createRowBodies } from '../request/rows/row-bodies.ts'
import type { Resource } from '../resource.ts'
import { respondWritten } from '../response/response-builder.ts'
import { runOnce } from '../run-operation.ts'
import { getFieldNames } from '../version-fields.ts'
import type { OperationContext } from './context.ts'
import { createImportRows, type ImportTools } from './import-rows.ts'
import { toJointError } from './write-many.ts'

interface ImportQuery {
  on_conflict?: string
  dry_run?: boolean
}

/** The requests that a second of a transaction counts as: by default, a user may send as many. */
const COST_PER_SECOND = 10

const getTimeCost = (ms: number) => Math.floor(ms / 1000) * COST_PER_SECOND

/** Returns the stream that the content type parser has passed on. */
const getBody = (request: FastifyRequest) => request.body as Readable

/** Returns the function that parses the rows of a collection. */
function createParse(
  { name, schemas }: Resource,
  mappings: FieldMappings,
  type: RowType,
  maxRowBytes: number,
) {
  const { create, change, read } = mappings[name]?.schemas ?? schemas
  const written = new Map(Object.entries({ ...change.properties, ...create.properties }))
  const readOnly = new Set(Object.keys(read.properties).filter((each) => !written.has(each)))
  return (texts: AsyncIterable<string>): SentRows =>
    type === 'text/csv'
      ? parseCsv(texts, { written, readOnly }, maxRowBytes)
      : parseNdjson(texts, maxRowBytes)
}

export function createImportHandler(
  context: OperationContext,
  operations: ImportTools['operations'],
): Handler<{ Querystring: ImportQuery }> {
  const { app, resource } = context
  const { database, idempotency, imports, limits, resourceWriter } = app
  const { mappings } = resourceWriter
  const { maxBytes, maxRowBytes, maxRows, transaction } = imports
  const checkRole = createCheckRole(resource, (view) => buildImportQuery(view, mappings))
  const { toCollection } = getFieldNames(resource, mappings)
  // Compiled at the first import: few collections have one.
  let bodies: ImportTools['bodies'] | undefined

  const importRows: Handler<{ Querystring: ImportQuery }> = async (request, reply) => {
    // 1. Caller (401), query (400), the right to change (403), the length (413), Idempotency-Key (400), the parent (404).
    const { actor, query } = request
    const { on_conflict: sent } = query
    const field = sent === undefined ? undefined : toCollection(sent)
    const type = getRowType(request)
    if (!actor || actor.credential === 'none' || !type) throw apiError('UNAUTHORIZED')
    const address = readAddress(resource, request)
    checkQuery(request, checkRole)
    const verbs = field === undefined ? ['create'] : ['create', 'update']
    const guards = verbs.flatMap((verb) => app.guards.get(`${resource.name}:${verb}`) ?? [])
    for (const guard of guards) checkGuard(actor, guard)
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${maxBytes} bytes` })
    }
    const body = imports.createBody()
    const content = {
      type,
      query,
      get digest() {
        // Read when the body has arrived.
        return body.digest
      },
    }
    const key = idempotency.readKey(request, actor, content)
    await ensureParent(database, resource, address.parent)

    // 2. The only import of the user (429, 503), and its body, for which no connection of the database is held.
    const end = imports.begin(actor.userId)
    const resumeTimeouts = suspendTimeouts(request)
    const lifetime = getLifetime(reply.raw)
    let rowCount = 0
    let writtenMs = 0
    try {
      await body.receive(getBody(request))
      if (!(await app.callers.readAgain(request, actor))) {
        throw createChallenge(actor.credential === 'token' ? CHALLENGES.token : CHALLENGES.key)
      }
      const parse = createParse(resource, mappings, type, maxRowBytes)
      const read = async function* () {
        for await (const piece of readPieces(body.read(), parse, maxRows)) {
          if (!lifetime.isAwaited) throw disconnected
          rowCount = Math.max(rowCount, piece.at(-1)?.number ?? 0)
          yield piece
        }
      }
      bodies ??= createRowBodies(resource, resourceWriter)
      const tools = { context, operations, bodies }
      const createRows = () => createImportRows(tools, { request, reply, address, conflict: field })

      // 3. What is wrong with the rows themselves (422), unless the response of an earlier request is stored.
      if (!key || !(await idempotency.hasResponse(key))) await createRows().check(database, read())

      // 4. One transaction, which checks the rights of the caller at its beginning and at its end (401, 403).
      if (resource.isCredential) request.mayChangeCredentials = true
      const rows = createRows()
      const respond = (): WriteResponse => {
        const meta = { timestamp: new Date().toISOString() }
        return { status: 200, location: null, etag: null, result: { data: rows.counts, meta } }
      }
      const find = (tx: Connection) => app.callers.ensureRights(tx, actor, guards)
      const write = async (tx: Transaction) => {
        const startedAt = performance.now()
        try {
          await rows.write(tx, read())
          await find(tx)
          return respond()
        } finally {
          writtenMs = performance.now() - startedAt
        }
      }
      const work = { find, write, format: jsonFormat<unknown>(), options: transaction, onQueue: undefined }
      const response = await imports
        .write(() => runOnce(request, reply, actor, key, work), lifetime.onQueue)
        .catch((error) => {
          // A deferred constraint is checked at the end: no row is known to be at fault.
          if (!(error instanceof SqlError)) throw error
          throw toJointError(context.toSentError(error, { prefix: '' }, actor), 'rows')
        })

      // 5. The response.
      return await respondWritten(request, reply, actor, response)
    } finally {
      await body.close()
      end()
      resumeTimeouts()
      // Also of an import that fails, or writes nothing.
      const workCost = Math.max(Math.ceil(rowCount / ROWS_PER_COST) - 1, getTimeCost(writtenMs))
      const cost = Math.max(0, workCost) + Math.floor(body.bytes / BYTES_PER_COST)
      if (cost > 0) await limits.addCost(request, actor, cost)
    }
  }

  return (request, reply) => importRows(request, reply).finally(() => discardBody(getBody(request)))
}
