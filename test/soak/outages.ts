/** Stops, kills and freezes a PostgreSQL under load, and measures what clients observe. */
import { execFileSync } from 'node:child_process'
import { chownSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient, type Reply } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { findFreePort } from '../helpers/listen.ts'
import { startServer } from '../helpers/process.ts'
import { readNewestRows } from './write-log.ts'

export interface Outage {
  name: string
  /** Requests with the expected status. */
  answered: number
  /** Requests with status 503. */
  refused: number
  /** A line for each request with another status or without a response. */
  broken: string[]
  /** The number of acknowledged writes, and how many of them are missing. */
  written: number
  lost: number
  /** Milliseconds of the slowest response. */
  longest: number
  /** Milliseconds from the return of PostgreSQL to the first 200 of `/readyz`. */
  back: number
}

export interface OutageOptions {
  file: string
  clients: number
  onOutage: (outage: Outage) => void
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const HIGH_LIMIT = '1000000000'
/** Load before and after each outage. */
const LOAD_MS = 2_000
const STOPPED_MS = 4_000
const KILLED_MS = 1_000
const FROZEN_MS = 9_000

/** Starts a PostgreSQL with the tools that `pg_config` names; as the user `postgres` if this process runs as root. */
async function startStoppablePostgres(t: Owner) {
  const folder = testFolder(t)
  const bin = execFileSync('pg_config', ['--bindir'], { encoding: 'utf8' }).trim()
  const isRoot = process.getuid?.() === 0
  const readId = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  const [uid, gid] = isRoot ? [readId('-u'), readId('-g')] : [undefined, undefined]
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid)
  const data = join(folder, 'data')
  const port = await findFreePort()
  const runTool = (name: string, ...args: string[]) =>
    execFileSync(join(bin, name), args, { stdio: 'ignore', cwd: folder, ...(isRoot && { uid, gid }) })
  runTool('initdb', '-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--no-sync')
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`
  const start = () => runTool('pg_ctl', '-D', data, '-l', join(folder, 'log'), '-o', options, '-w', 'start')
  const stop = (mode: string) => runTool('pg_ctl', '-D', data, '-m', mode, '-w', 'stop')
  /** Signals all processes: if only the postmaster stopped, its children would continue. */
  const signal = (name: NodeJS.Signals) => {
    const [postmaster = ''] = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim().split(' ')
    for (const pid of [postmaster, ...children]) process.kill(Number(pid), name)
  }
  start()
  t.teardown(() => stop('immediate'))
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, start, stop, signal }
}

/** The load of one outage: clients that write and read until it is over. */
function startLoad(client: Client, clients: number, name: string) {
  const counts = { answered: 0, refused: 0, broken: [] as string[], longest: 0 }
  const ids: string[] = []
  const state = { isOver: false }
  const sendRequest = async (expectedStatus: number, send: () => Promise<Reply>) => {
    const startedAt = performance.now()
    const reply = await send().catch((error: unknown) => String(error))
    counts.longest = Math.max(counts.longest, performance.now() - startedAt)
    if (typeof reply === 'string') counts.broken.push(reply)
    else if (reply.status === expectedStatus) counts.answered += 1
    else if (reply.status === 503) counts.refused += 1
    else counts.broken.push(`${reply.status} ${reply.text}`)
    if (typeof reply !== 'string' && reply.status === 201) ids.push(reply.body.data.id)
  }
  const runClient = async (_: unknown, clientIndex: number) => {
    for (let i = 0; !state.isOver; i += 1) {
      const sku = `${name.replace(/\W+/g, '-')}-${clientIndex}-${i}`
      const body = { sku, name: 'Outage test product', price_amount: 1 }
      await sendRequest(201, () => client.post('/products', body))
      await sendRequest(200, () => client.get('/products?limit=5'))
      await wait(20)
    }
  }
  const running = Array.from({ length: clients }, runClient)
  return {
    counts,
    ids,
    async stop() {
      state.isOver = true
      await Promise.all(running)
    },
  }
}

/** Runs the load during an outage. @param causeOutage resolves when PostgreSQL is running again */
async function measureOutage(
  client: Client,
  clients: number,
  name: string,
  causeOutage: () => Promise<void>,
): Promise<Outage> {
  const load = startLoad(client, clients, name)
  await wait(LOAD_MS)
  await causeOutage()
  const returnedAt = performance.now()
  while ((await client.get('/readyz')).status !== 200) await wait(20)
  const back = performance.now() - returnedAt
  await wait(LOAD_MS)
  await load.stop()
  const storedIds = new Set((await readNewestRows(client, '/products', () => true)).map(({ id }) => id))
  const lost = load.ids.filter((id) => !storedIds.has(id)).length
  return { ...load.counts, name, written: load.ids.length, lost, back }
}

export async function outages(t: Owner, { file, clients, onOutage }: OutageOptions): Promise<void> {
  const postgres = await startStoppablePostgres(t)
  const { url } = await startServer(
    t,
    {
      ...{ DATABASE_URL: postgres.url, DATA_DIR: testFolder(t), PORT: '0', LOG_LEVEL: 'silent' },
      ...{ ADMIN_API_KEY: KEY, RATE_LIMIT: HIGH_LIMIT, RATE_LIMIT_BURST: HIGH_LIMIT },
    },
    file,
  )
  const client = createClient(url, { 'x-api-key': KEY })
  const runOutage = async (name: string, causeOutage: () => Promise<void>) =>
    onOutage(await measureOutage(client, clients, name, causeOutage))

  for (const mode of ['fast', 'immediate']) {
    await runOutage(`stopped (${mode}) for ${STOPPED_MS} ms and started`, async () => {
      postgres.stop(mode)
      await wait(STOPPED_MS)
      postgres.start()
    })
  }
  await runOutage('all processes killed (-9), then started', async () => {
    postgres.signal('SIGKILL')
    await wait(KILLED_MS)
    postgres.start()
  })
  await runOutage(`frozen (SIGSTOP) for ${FROZEN_MS} ms`, async () => {
    postgres.signal('SIGSTOP')
    await wait(FROZEN_MS)
    postgres.signal('SIGCONT')
  })
}
