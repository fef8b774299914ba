/** Exports on raw connections, whose ends a test observes, and a database whose reads it controls. */
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { ADMIN_KEY, type TestApp } from '../../../testing/helpers/app.ts'
import type { Owner } from '../../../testing/helpers/database.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { NDJSON } from './read-export.ts'

interface ExportOptions {
  /** The header with the credential. */
  credential?: string
  path?: string
  accept?: string
  version?: string
  isPaused?: boolean
}

type Controlled = Pick<ReturnType<typeof controlReads>, 'state'>

/** Inserts products of a size, the same in each database except for their name. Some have the same price. */
export const insertProducts = (database: Database, count: number, bytes: number, name = 'Product') =>
  database.run(
    `insert into products (id, sku, name, description, price_amount, status, search, created_at)
     select md5(n::text)::uuid, 'P-' || n, $3, repeat('x', $2), n % 5, 'active', '', '2026-01-01'
     from generate_series(1, $1::integer) as n`,
    [count, bytes, name],
  )

/** A database whose reads of a table a test counts, holds, or lets fail. */
export function controlReads(opened: Database, table = 'products') {
  const reads = new RegExp(`from "${table}"`)
  const state = {
    /** Rows that were read. */
    rows: 0,
    statements: 0,
    /** Statements that have not ended. */
    running: 0,
    /** Called before a statement that reads the table. */
    before: async (_statements: number, _limit: unknown): Promise<void> => undefined,
  }
  const database = createDatabase({
    ...opened.$client,
    async run(text, params, options) {
      if (!reads.test(text)) return opened.run(text, params, options)
      state.statements += 1
      state.running += 1
      try {
        await state.before(state.statements, params?.at(-1))
        const rows = await opened.run(text, params, options)
        state.rows += rows.length
        return rows
      } finally {
        state.running -= 1
      }
    },
  })
  return { database, state }
}

export interface RawExport {
  socket: Socket
  /** What has arrived. */
  read(): string
  /** Resolves to how the connection ended, or when the last chunk has arrived. */
  untilEnd: Promise<'complete' | 'end' | 'reset'>
}

/** What ends a complete response with HTTP/1.1. */
export const LAST_CHUNK = '\r\n0\r\n\r\n'

/** Sends a request for an export on a connection of its own. */
export function openExport(
  t: Owner,
  { port }: Pick<TestApp, 'port'>,
  {
    credential = `X-API-Key: ${ADMIN_KEY}`,
    path = '/products',
    accept = NDJSON,
    version = '1.1',
    isPaused = false,
  }: ExportOptions = {},
): RawExport {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const chunks: Buffer[] = []
  const read = () => Buffer.concat(chunks).toString('latin1')
  const untilEnd = new Promise<'complete' | 'end' | 'reset'>((resolve) => {
    socket.on('error', () => resolve('reset'))
    socket.on('close', () => resolve('end'))
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      const tail = Buffer.concat(chunks.slice(-2)).subarray(-LAST_CHUNK.length).toString('latin1')
      if (tail === LAST_CHUNK) resolve('complete')
    })
  })
  if (isPaused) socket.pause()
  socket.write(`GET ${path} HTTP/${version}\r\nHost: a\r\n${credential}\r\nAccept: ${accept}\r\n\r\n`)
  return { socket, read, untilEnd }
}

/** Waits until a value is the same in 30 turns of the event loop. Turns are counted, because the process may pause. */
async function untilSame(read: () => number): Promise<void> {
  let former = Number.NaN
  let turns = 0
  await waitUntil(async () => {
    const value = read()
    turns = value === former ? turns + 1 : 0
    former = value
    await wait(5)
    return turns >= 30
  })
}

/** Waits until an export is not read on: the buffers of the connection are full. */
export async function untilStalled({ state }: Controlled): Promise<void> {
  await waitUntil(() => state.rows > 0)
  // A statement that runs makes each turn differ.
  let turn = 0
  await untilSame(() => (state.running > 0 ? --turn : state.rows))
}

/**
 * Waits until a client has received all that was sent. libuv reports a reset as an orderly end if the client has not read
 * all bytes that arrived before it.
 */
export const untilReceived = ({ socket }: RawExport): Promise<void> => untilSame(() => socket.bytesRead)

/** Begins an export and holds one of its statements. @returns a function that lets it go on */
export async function holdStatement(
  t: Owner,
  test: Pick<TestApp, 'port'> & Controlled,
  which: number,
  options?: ExportOptions,
) {
  const [reached, released] = [createDeferred(), createDeferred()]
  let failure: Error | undefined
  test.state.statements = 0
  test.state.before = async (statements) => {
    if (statements !== which) return
    reached.resolve()
    await released.promise
    if (failure) throw failure
  }
  const sent = openExport(t, test, options)
  await reached.promise
  return {
    sent,
    /** @param error with which the statement fails */
    goOn(error?: Error) {
      failure = error
      test.state.before = async () => undefined
      released.resolve()
    },
  }
}
