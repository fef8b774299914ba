/** Writes the rows of an import as a stream. */
import type { ApiResponse } from './response.ts'
import type { CallOptions, Transport } from './transport.ts'
import type { CreateBody } from './types.ts'

/** A row of an import: with `onConflict`, the fields of one that exists may be absent. */
export type ImportRow<Paths, P extends string> = Partial<CreateBody<Paths, P>>

/** Rows, which are sent as NDJSON; or the bytes of a file. */
export type ImportSource<Paths, P extends string> =
  | Iterable<ImportRow<Paths, P>>
  | AsyncIterable<ImportRow<Paths, P>>
  | ReadableStream<Uint8Array>

export interface ImportOptions extends CallOptions {
  /** The `Idempotency-Key`, with which the same rows can be sent again; by default none. */
  idempotencyKey?: string | undefined
  /** The form of a file; NDJSON by default. */
  format?: 'ndjson' | 'csv' | undefined
  /** A unique field: rows whose resources exist change them. */
  onConflict?: string | undefined
  /** Checks all rows and writes nothing. */
  dryRun?: boolean | undefined
}

/** The numbers of rows. */
export interface ImportCounts {
  created: number
  updated: number
  unchanged: number
}

const MEDIA_TYPES = { ndjson: 'application/x-ndjson', csv: 'text/csv' }

/** Characters that are sent together. */
const CHUNK_LENGTH = 65_536

async function* writeLines(rows: Iterable<unknown> | AsyncIterable<unknown>) {
  const encoder = new TextEncoder()
  let text = ''
  for await (const row of rows) {
    text += `${JSON.stringify(row)}\n`
    if (text.length < CHUNK_LENGTH) continue
    yield encoder.encode(text)
    text = ''
  }
  if (text !== '') yield encoder.encode(text)
}

/** Returns the body of an import. Rows are taken as fast as the server reads them. */
function toRowStream<Paths, P extends string>(source: ImportSource<Paths, P>): ReadableStream<Uint8Array> {
  if (source instanceof ReadableStream) return source
  const lines = writeLines(source)
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await lines.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel() {
      await lines.return()
    },
  })
}

/** Sends an import, once. */
export async function sendRows<Paths, P extends string>(
  transport: Transport,
  address: { path: string; pathParameters: Record<string, string> },
  source: ImportSource<Paths, P>,
  { format = 'ndjson', onConflict, dryRun, idempotencyKey, ...options }: ImportOptions = {},
): Promise<ApiResponse<ImportCounts>> {
  const response = await transport.sendStream({
    ...address,
    query: { on_conflict: onConflict, dry_run: dryRun },
    headers: { 'Content-Type': MEDIA_TYPES[format], 'Idempotency-Key': idempotencyKey },
    body: toRowStream(source),
    ...options,
  })
  // The document has the type of the response.
  return response as ApiResponse<ImportCounts>
}
