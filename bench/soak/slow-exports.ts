/** Reads exports of many users at one byte a second, and measures the memory of the server and the latency of others. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { openPostgres } from '../../packages/database/src/client/server/server.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { readPeakMemory, readResidentMemory, resetPeakMemory } from '../memory.ts'
import { startFlags } from '../start-flags.ts'
import { runLoad } from './load.ts'
import { failIf, formatCells } from './report.ts'
import {
  createDatabaseSettings,
  createMember,
  createWorkload,
  seedDatabase,
  startSoakServer,
} from './server.ts'

/** That of a container with 512 MiB. */
const HEAP_MIB = 256
const EXPORT_COUNTS = [50, 100]
/** More than the buffers of a connection hold: 40 MB. */
const PRODUCT_COUNT = 8_000
const PRODUCT_BYTES = 5_000
const SEEDED_USERS = 200
/** Requests per second of the other users. */
const OTHERS_RATE = 40
const PHASE_SECONDS = 8
const MAX_SLOWDOWN = 2
const MAX_MEMORY_MB = 100

/** Begins an export that is read at one byte a second. Resolves to the status. */
async function openSlowExport(port: number, credential: Record<string, string>) {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  const headers = Object.entries({ host: 'a', accept: 'application/x-ndjson', ...credential })
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET /api/v1/products HTTP/1.1\r\n${lines.join('')}\r\n`)
  await once(socket, 'readable')
  const status = String(socket.read('HTTP/1.1 200'.length)).slice(-3)
  const timer = setInterval(() => socket.read(1), 1_000)
  socket.on('close', () => clearInterval(timer))
  return { socket, status }
}

/** Measures a server with a small heap while its exports are read slowly. */
export async function readExportsSlowly(t: Owner): Promise<void> {
  console.log(`exports read at one byte a second, a heap of ${HEAP_MIB} MiB, PostgreSQL; ms`)
  const settings = await createDatabaseSettings(t)
  await seedDatabase(settings, SEEDED_USERS)
  const flags = [...startFlags, `--max-old-space-size=${HEAP_MIB}`]
  const server = await startSoakServer(t, { LOG_LEVEL: 'warn', ...settings }, flags)
  const { port, admin, child } = server
  const requests = await createWorkload(admin)
  const database = await openPostgres({ url: settings.DATABASE_URL ?? '', poolSize: 2, statementTimeout: 0 })
  t.teardown(() => database.close())
  await database.run(
    `insert into products (id, sku, name, description, price_amount, status, search)
     select gen_random_uuid(), 'X-' || n, 'Product ' || n, repeat('x', $2), 1, 'active', ''
     from generate_series(1, $1::integer) as n`,
    [PRODUCT_COUNT, PRODUCT_BYTES],
  )
  await database.run('vacuum analyze')
  const load = async (seconds = PHASE_SECONDS) => runLoad({ port, requests, rate: OTHERS_RATE, seconds })
  // Warm-up: code that is not yet compiled is slow.
  await runLoad({ port, requests, connections: 32, seconds: 10 })
  const quiet = await load()
  const pid = child.pid ?? 0
  const idle = readResidentMemory(pid)
  console.log('  | other users | responses | p50 | p99 | max | not served | exports | memory above idle |')
  console.log('  |---|---|---|---|---|---|---|---|')
  console.log(
    `  | quiet | ${formatCells(quiet.served)} | ${quiet.sent - quiet.served.count} |  | ${idle.toFixed()} MB idle |`,
  )
  for (const count of EXPORT_COUNTS) {
    const members = await Promise.all(Array.from({ length: count }, () => createMember(database)))
    resetPeakMemory(pid)
    const sockets: Socket[] = []
    const statuses: Record<string, number> = {}
    const measure = async (title: string, work: () => Promise<unknown>, maxSlowdown: number) => {
      const [report] = await Promise.all([load(), work()])
      const { served, sent } = report
      const memory = readPeakMemory(pid) - idle
      const found = Object.entries(statuses).map(([status, times]) => `${times} times ${status}`)
      const cells = [sent - served.count, found.join(', '), `${memory.toFixed()} MB`]
      console.log(`  | ${title} | ${formatCells(served)} | ${cells.join(' | ')} |`)
      failIf(served.p99 > maxSlowdown * quiet.served.p99 || sent > served.count || memory > MAX_MEMORY_MB)
    }
    // For seconds, they are sent as fast as the server can, until the buffers of their connections are full.
    await measure(
      `${count} exports begin`,
      () =>
        Promise.all(
          members.map(async ({ headers }) => {
            const { socket, status } = await openSlowExport(port, headers)
            sockets.push(socket)
            statuses[status] = (statuses[status] ?? 0) + 1
          }),
        ),
      Number.POSITIVE_INFINITY,
    )
    await measure(`${count} exports wait`, async () => undefined, MAX_SLOWDOWN)
    for (const socket of sockets) socket.destroy()
    await wait(2_000)
  }
}
