/** GET on a collection with `Accept: application/x-ndjson` or `text/csv`: all rows of a list, as a stream. */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { requireCredential } from '@resource-api/api/access'
import { apiError, type Violation } from '@resource-api/api/errors'
import { createViolation } from '@resource-api/api/validation'
import type { FastifyRequest } from 'fastify'
import type { ListHandler } from '../definition/handlers.ts'
import { createListQuery } from '../request/list-query.ts'
import { checkQuery, createCheckRole, readSentQuery } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { createCsv, createNdjson } from '../response/export-format.ts'
import { CACHE_CONTROL } from '../response/response-builder.ts'
import { readPosition } from '../sql/keyset.ts'
import type { OperationContext } from './context.ts'
import { createPageReader, createReaderSource, createRowSource, ROWS_PER_COST } from './export-pages.ts'
import { createRightsWatch } from './export-rights.ts'
import { createListHandler } from './list.ts'
import type { RowReader } from './read-page.ts'

/** The parameters of a page. */
const PAGE_PARAMETERS = ['include', 'limit', 'page', 'cursor']

/** Returns the violations of parameters that only pages have. */
const findPageParameters = (request: FastifyRequest): Violation[] => {
  const sent = readSentQuery(request)
  return PAGE_PARAMETERS.filter((name) => sent.has(name)).map((name) =>
    createViolation(name, 'is not available for an export', 'CONFLICTING_PARAMETERS'),
  )
}

/** @throws ApiError 412: an export has no entity tag, so that only `*` matches */
function checkPreconditions({ headers }: FastifyRequest): void {
  const match = headers['if-match']
  if (match !== undefined && match.trim() !== '*') throw apiError('PRECONDITION_FAILED')
}

function createExportHandler(context: OperationContext, reader?: RowReader): ListHandler {
  const { app, resource } = context
  const { addressing, database, exports, limits } = app
  const formats = {
    ndjson: createNdjson(resource, app.resourceWriter),
    csv: createCsv(resource, app.resourceWriter),
  }
  const checkRole = createCheckRole(resource, (view) => createListQuery(view, app.resourceWriter.mappings))
  const watchRights = createRightsWatch()

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the credential for compared relations (403), preconditions (412).
    const address = readAddress(resource, request)
    const { actor, parent } = address
    checkQuery(request, checkRole, findPageParameters(request))
    const { query } = request
    for (const required of query.requires) requireCredential(actor, required)
    checkPreconditions(request)
    const type = addressing.getAddress(request.raw).stream === 'csv' ? 'csv' : 'ndjson'
    const setHeaders = () =>
      reply
        .header('content-type', formats[type].contentType)
        .header('content-disposition', `attachment; filename="${resource.name}.${type}"`)
        .header('cache-control', CACHE_CONTROL)

    // 2. A HEAD reads no rows, and takes no place.
    if (request.method === 'HEAD') {
      await ensureParent(database, resource, parent)
      setHeaders()
      return Readable.from([])
    }

    // 3. The user's only place (429), and the first page: errors so far are responses.
    const { signal, fail } = exports.take(request, reply, actor.userId)
    const source = reader
      ? createReaderSource(context, reader, address, query)
      : createRowSource(context, address, query)
    const ensureRights = await watchRights(request, actor, source)
    const { head, write } = formats[type].begin(actor, query)
    const readPage = createPageReader(source, {
      maxRows: resource.select.largePage,
      toPosition: (row) => readPosition(resource, query.sorts, row),
      ...{ write, signal },
    })
    const first = await readPage()
    if (first.rows === 0) await ensureParent(database, resource, parent)

    // 4. Each page is counted, and sent if the caller still has the rights. Node.js asks for the next one when the client
    // has received a part of it.
    let unpaid = -ROWS_PER_COST
    const count = async (rows: number) => {
      unpaid += rows
      const cost = Math.ceil(Math.max(0, unpaid) / ROWS_PER_COST)
      unpaid -= cost * ROWS_PER_COST
      for (let wait = cost; wait > 0; ) {
        wait = await limits.countLater(actor, cost)
        if (wait > 0) await sleep(wait, undefined, { signal })
      }
    }
    async function* writePages() {
      try {
        yield Buffer.from(head)
        for (let page = first; ; page = await readPage(page.next)) {
          await count(page.rows)
          await ensureRights(page.connection)
          yield page.bytes
          if (!page.next) return
        }
      } catch (error) {
        // The end of the response must not look like that of its body.
        fail('its rows could not be read', error)
        throw error
      }
    }

    // 5. The response. From here on EXPORT_SECONDS applies: the client may pause, and the rate limit may have to be
    // waited for.
    clearTimeout(request.timeout ?? undefined)
    request.raw.socket.setTimeout(0)
    setHeaders()
    const body = Readable.from(writePages(), { objectMode: false })
    signal.addEventListener('abort', () => body.destroy(), { once: true })
    return body
  }
}

/**
 * Creates the handler of a list that is sent in pages or, if the client prefers that, as an export.
 * @param reader reads the rows in the place of the engine
 */
export function createListOrExportHandler(context: OperationContext, reader?: RowReader): ListHandler {
  const list = createListHandler(context, reader)
  const exportRows = createExportHandler(context, reader)
  const { addressing } = context.app
  return (request, reply) =>
    addressing.getAddress(request.raw).stream ? exportRows(request, reply) : list(request, reply)
}
