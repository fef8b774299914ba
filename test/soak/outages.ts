/** Stops a private PostgreSQL server in every way during load, and counts what clients see. */
import { execFileSync } from 'node:child_process'
import { chownSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient, type Reply } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { findFreePort } from '../helpers/listen.ts'
import { startServer } from '../helpers/process.ts'
import { newest } from './ledger.ts'

export interface Outage {
  name: string
  /** Requests by outcome: success, 503, or any other, with its description. */
  answered: number
  refused: number
  broken: string[]
  /** Writes that were acknowledged, and those among them that are not there. */
  written: number
  lost: number
  /** Milliseconds of the slowest answer, and until readyz is 200 again after the server is back. */
  longest: number
  back: number
}

export interface OutageOptions {
  file: string
  clients: number
  onOutage: (outage: Outage) => void
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const WITHOUT_LIMIT = '1000000000'
/** Milliseconds of load before, and for which the server is away where nothing else says so. */
const BEFORE = 2_000
const AWAY = 4_000

/** A server in a folder, with its tools from `pg_config`; as root by the hand of the user `postgres`. */
async function ownPostgres(t: Owner) {
  const folder = testFolder(t)
  const bin = execFileSync('pg_config', ['--bindir'], { encoding: 'utf8' }).trim()
  const isRoot = process.getuid?.() === 0
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  const [uid, gid] = isRoot ? [idOf('-u'), idOf('-g')] : [undefined, undefined]
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid)
  const data = join(folder, 'data')
  const port = await findFreePort()
  const tool = (name: string, ...args: string[]) =>
    execFileSync(join(bin, name), args, { stdio: 'ignore', cwd: folder, ...(isRoot && { uid, gid }) })
  tool('initdb', '-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--no-sync')
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`
  const start = () => tool('pg_ctl', '-D', data, '-l', join(folder, 'log'), '-o', options, '-w', 'start')
  const stop = (mode: string) => tool('pg_ctl', '-D', data, '-m', mode, '-w', 'stop')
  /** All its processes: a postmaster that is stopped alone leaves the others at work. */
  const signal = (name: NodeJS.Signals) => {
    const [first = ''] = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')
    const children = readFileSync(`/proc/${first}/task/${first}/children`, 'utf8').trim().split(' ')
    for (const pid of [first, ...children]) process.kill(Number(pid), name)
  }
  start()
  t.teardown(() => stop('immediate'))
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, start, stop, signal }
}

export async function outages(t: Owner, { file, clients, onOutage }: OutageOptions): Promise<void> {
  const server = await ownPostgres(t)
  const { url } = await startServer(
    t,
    {
      ...{ DATABASE_URL: server.url, DATA_DIR: testFolder(t), PORT: '0', LOG_LEVEL: 'silent' },
      ...{ ADMIN_API_KEY: KEY, RATE_LIMIT: WITHOUT_LIMIT, RATE_LIMIT_BURST: WITHOUT_LIMIT },
    },
    file,
  )
  const client = createClient(url, { 'x-api-key': KEY })

  const amid = async (name: string, fail: () => Promise<void>) => {
    const seen = { name, answered: 0, refused: 0, broken: [] as string[], longest: 0 }
    const ids: string[] = []
    const state = { over: false }
    const ask = async (expected: number, send: () => Promise<Reply>) => {
      const began = performance.now()
      const reply = await send().catch((error: unknown) => String(error))
      seen.longest = Math.max(seen.longest, performance.now() - began)
      if (typeof reply === 'string') seen.broken.push(reply)
      else if (reply.status === expected) seen.answered += 1
      else if (reply.status === 503) seen.refused += 1
      else seen.broken.push(`${reply.status} ${reply.text}`)
      if (typeof reply !== 'string' && reply.status === 201) ids.push(reply.body.data.id)
    }
    const load = async (_: unknown, own: number) => {
      for (let i = 0; !state.over; i += 1) {
        const body = {
          sku: `${name.replace(/\W+/g, '-')}-${own}-${i}`,
          name: 'Amid outages',
          price_amount: 1,
        }
        await ask(201, () => client.post('/products', body))
        await ask(200, () => client.get('/products?limit=5'))
        await wait(20)
      }
    }
    const loads = Array.from({ length: clients }, load)
    await wait(BEFORE)
    await fail()
    const returned = performance.now()
    while ((await client.get('/readyz')).status !== 200) await wait(20)
    const back = performance.now() - returned
    await wait(BEFORE)
    state.over = true
    await Promise.all(loads)
    const known = new Set((await newest(client, '/products', () => true)).map(({ id }) => id))
    const lost = ids.filter((id) => !known.has(id)).length
    onOutage({ ...seen, written: ids.length, lost, back })
  }

  for (const mode of ['fast', 'immediate']) {
    await amid(`stopped (${mode}) for ${AWAY} ms and started`, async () => {
      server.stop(mode)
      await wait(AWAY)
      server.start()
    })
  }
  await amid('killed (-9) with all its processes, and started', async () => {
    server.signal('SIGKILL')
    await wait(1_000)
    server.start()
  })
  await amid('silent (SIGSTOP) for 9 s', async () => {
    server.signal('SIGSTOP')
    await wait(9_000)
    server.signal('SIGCONT')
  })
}
