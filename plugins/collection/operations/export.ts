/** GET on a collection with `Accept: application/x-ndjson` or `text/csv`: all rows of a list, as a stream. */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import type { Violation } from '../../../schemas/error.ts'
import type { Actor } from '../../access/actor.ts'
import { requireCredential } from '../../access/guards.ts'
import { apiError } from '../../errors/index.ts'
import { getClientIp } from '../../rate-limit/address-windows.ts'
import { createViolation } from '../../validation/text.ts'
import type { ListHandler } from '../handlers.ts'
import type { ListQuery } from '../query.ts'
import { createListQuery } from '../request/list-query.ts'
import { checkQuery, createCheckRole, readSentQuery } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { getToInternal } from '../request/selection.ts'
import { createExportFormats, type ExportFormat } from '../response/export-format.ts'
import { CACHE_CONTROL } from '../response/response-builder.ts'
import { getHidden } from '../restrictions.ts'
import { readPosition } from '../sql/keyset.ts'
import type { Row } from '../store.ts'
import type { OperationContext } from './context.ts'
import {
  CHUNK_FACTOR,
  type Chunk,
  type ChunkStart,
  createReaderSource,
  createRowSource,
  ROWS_PER_COST,
  readChunk,
} from './export-chunks.ts'
import { createRightsWatch, type ExportRights } from './export-rights.ts'
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

/** @param reader reads the rows in the place of the engine */
export function createExportHandler(context: OperationContext, reader?: RowReader): ListHandler {
  const { app, options, resource } = context
  const { addressing, database, exports, limits } = app
  const formats = createExportFormats(resource, options.representation)
  const checkRole = createCheckRole(resource, createListQuery)
  const watchRights = createRightsWatch()
  const allFields = Object.keys(resource.published.schemas.read.properties).map(getToInternal(resource))

  /** Returns the function that writes a row, and the text before the first one. */
  const beginFormat = (format: ExportFormat, actor: Actor, { fields: wanted }: ListQuery) => {
    const hidden = getHidden(resource, actor)
    const fields = hidden && !wanted ? allFields.filter((name) => !hidden.has(name)) : wanted
    const { head, write } = format.begin(fields)
    return { head, write: (row: Row) => write(resource.toEntity(row, actor, wanted)) }
  }

  /** Returns the text of all rows, in pieces. The next chunk is read when half of the former one is sent. */
  async function* writeRows(
    request: FastifyRequest,
    { actor, signal, rights, head, first, readNext }: RowsToWrite,
  ): AsyncGenerator<Buffer, void, undefined> {
    /** Rows that are sent or counted, and those that are counted. */
    let begun = 0
    let counted = ROWS_PER_COST

    const count = async (rows: number) => {
      begun += rows
      const cost = Math.ceil(Math.max(0, begun - counted) / ROWS_PER_COST)
      counted += cost * ROWS_PER_COST
      for (let wait = cost; wait > 0; ) {
        wait = await limits.countLater(request, actor, cost)
        if (wait > 0) await sleep(wait, undefined, { signal })
      }
    }

    if (head !== '') yield Buffer.from(head)
    for (let chunk = first; ; ) {
      const { pieces, bytes, next: start } = chunk
      let next: Promise<Chunk> | undefined
      let unsent = bytes
      await count(chunk.rows)
      for (let piece = pieces.shift(); piece; piece = pieces.shift()) {
        await rights.ensureCredential()
        yield piece
        unsent -= piece.length
        if (!start || next || unsent > bytes / 2) continue
        next = readNext(start)
        // Awaited below, unless the client leaves before.
        next.catch(() => undefined)
      }
      await rights.ensureCredential()
      if (!start) return
      chunk = await (next ?? readNext(start))
    }
  }

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the credential for compared relations (403), preconditions (412).
    const address = readAddress(resource, request)
    const { actor, parent } = address
    checkQuery(request, checkRole, findPageParameters(request))
    const { query } = request
    for (const required of query.requires) requireCredential(actor, required)
    checkPreconditions(request)
    const { stream } = addressing.getAddress(request.raw)
    const type = stream === 'csv' ? 'csv' : 'ndjson'
    const format = formats[type]
    const setHeaders = () =>
      reply
        .header('content-type', format.contentType)
        .header('content-disposition', `attachment; filename="${resource.name}.${type}"`)
        .header('cache-control', CACHE_CONTROL)

    // 2. A HEAD reads no rows, and takes no place.
    if (request.method === 'HEAD') {
      await ensureParent(database, resource, parent)
      setHeaders()
      return Readable.from([])
    }

    // 3. The user's only place (429), and the first rows: errors so far are responses.
    const user = actor.credential === 'none' ? getClientIp(request) : actor.userId
    const { signal, fail } = exports.take(request, reply, user)
    const source = reader
      ? createReaderSource(context, reader, address, query)
      : createRowSource(context, address, query)
    const { head, write } = beginFormat(format, actor, query)
    const rights = await watchRights(request, actor, source)
    const chunks = {
      toPosition: (row: Row) => readPosition(resource, query.sorts, row),
      maxRows: CHUNK_FACTOR * resource.select.largePage,
      ...{ write, signal, check: rights.ensureRows },
    }
    const first = await readChunk(source, undefined, chunks)
    if (first.rows === 0) await ensureParent(database, resource, parent)

    // 4. The response. From here on EXPORT_SECONDS applies: the client may pause, and the rate limit may have to be
    // waited for.
    clearTimeout(request.timeout ?? undefined)
    request.raw.socket.setTimeout(0)
    setHeaders()
    const readNext = (from: ChunkStart) => readChunk(source, from, chunks)
    const rows = writeRows(request, { actor, signal, rights, head, first, readNext })
    const body = Readable.from(breakingOff(rows, fail), { objectMode: false })
    signal.addEventListener('abort', () => body.destroy(), { once: true })
    return body
  }
}

/** Breaks an export off when its rows cannot be read, so that the end of the response does not look like that of its body. */
async function* breakingOff(
  rows: AsyncIterable<Buffer>,
  fail: (reason: string, error: unknown) => void,
): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* rows
  } catch (error) {
    fail('its rows could not be read', error)
    throw error
  }
}

interface RowsToWrite {
  actor: Actor
  /** Aborted when the export ends. */
  signal: AbortSignal
  rights: ExportRights
  /** The text before the rows. */
  head: string
  first: Chunk
  readNext(from: ChunkStart): Promise<Chunk>
}

/** Creates the handler of a list that is sent in pages or, if the client prefers that, as an export. */
export function createListOrExportHandler(context: OperationContext): ListHandler {
  const list = createListHandler(context)
  const exportRows = createExportHandler(context)
  const { addressing } = context.app
  return (request, reply) =>
    addressing.getAddress(request.raw).stream ? exportRows(request, reply) : list(request, reply)
}
