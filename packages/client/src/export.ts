/** Reads exports: all resources of a list, from one response. */
import { NetworkError } from './errors.ts'
import type { CallOptions, Transport } from './transport.ts'

const MEDIA_TYPES = { ndjson: 'application/x-ndjson', csv: 'text/csv' } as const

/** Options of an export. Their time limit is that of the beginning of the response, with the retries. */
export interface ExportOptions extends CallOptions {
  /** The form of the bytes; `ndjson` by default. */
  format?: keyof typeof MEDIA_TYPES | undefined
}

interface ExportCall {
  path: string
  pathParameters: Record<string, string>
  query: object
}

/** Sends the request of an export. @returns the bytes, whose stream fails with a NetworkError if they are incomplete */
export async function openExport(
  transport: Transport,
  call: ExportCall,
  { format = 'ndjson', signal, deadlineMs }: ExportOptions,
): Promise<ReadableStream<Uint8Array>> {
  const headers = { Accept: MEDIA_TYPES[format] }
  const { body } = await transport.openStream({ ...call, headers, signal, deadlineMs })
  if (body === null) throw new NetworkError('The export has no body')
  return watch(body, signal)
}

/** Returns a stream of the same bytes, which fails with the reason of the signal, or when the connection is lost. */
function watch(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  // The connection may be lost already.
  const close = () => reader.cancel().catch(() => undefined)
  let stop = () => {}
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const abort = () => {
        controller.error(signal?.reason)
        void close()
      }
      stop = () => signal?.removeEventListener('abort', abort)
      if (signal?.aborted) abort()
      else signal?.addEventListener('abort', abort)
    },
    async pull(controller) {
      const { done, value } = await reader.read().catch((cause) => {
        stop()
        throw new NetworkError('The export is incomplete: its connection was lost', { cause })
      })
      if (signal?.aborted) return
      if (!done) return controller.enqueue(value)
      stop()
      controller.close()
    },
    async cancel() {
      stop()
      await close()
    },
  })
}

/** Yields the values of the lines of a stream. Closes its connection when it is left. */
export async function* readRows<Row>(
  open: () => Promise<ReadableStream<Uint8Array>>,
): AsyncGenerator<Row, void, undefined> {
  const reader = (await open()).getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield JSON.parse(line)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
