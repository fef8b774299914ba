/** With WORKERS, several processes serve one port: none of a request, a count or a piece of work is lost or done twice. */
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ADMIN_KEY, createClient } from '../../../testing/helpers/app.ts'
import { SERVER, testFolder } from '../../../testing/helpers/database.ts'
import { parseExposition, sumSamples } from '../../../testing/helpers/exposition.ts'
import { getRecipient, startSmtpServer } from '../../../testing/helpers/mails.ts'
import { listen } from '../../../testing/helpers/network.ts'
import {
  createServerSettings,
  type RunningProcess,
  SHORT_RUN,
  startModule,
  startServer,
} from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'
/** Of a request. Node.js forgets the connection that it gives to a process just when that is killed: it is not closed. */
const TIMEOUT_MS = 10_000
const headers = { 'x-api-key': ADMIN_KEY }

t.test('the embedded database has one process', async (t) => {
  const { output, ended } = startModule(t, 'server.ts', { DATA_DIR: testFolder(t), WORKERS: '2' })
  t.same(await ended, { code: 1, signal: null })
  t.equal(
    output.err,
    'Invalid settings:\n  WORKERS requires DATABASE_URL above 1: one process uses the embedded database\n',
  )
})

const skip = SERVER === undefined && 'the embedded database has one process: set DATABASE_URL'

t.test('several processes on one port', { skip }, async (t) => {
  const mailbox = await startSmtpServer(t)
  const settings = {
    ...(await createServerSettings(t)),
    ...mailbox.settings,
    ...{ WORKERS: '2', ADMIN_API_KEY: ADMIN_KEY, METRICS_TOKEN, LOG_LEVEL: 'info' },
  }
  async function start(more: NodeJS.ProcessEnv = {}) {
    const server = await startServer(t, { ...settings, ...more }, 'server.ts', SHORT_RUN)
    // The first process names the address in the log before the others are started.
    await waitUntil(() => server.output.out.includes('Ready at'))
    return server
  }

  interface Line {
    pid: number
    msg: string
    time: string
  }
  const readLines = ({ output }: RunningProcess): Line[] =>
    output.out
      .split('\n')
      .flatMap((line) => (line.startsWith('{') && line.endsWith('}') ? [JSON.parse(line)] : []))
  /** Returns the ids of the processes that have answered requests. */
  const readPids = (running: RunningProcess) => [
    ...new Set(readLines(running).flatMap(({ pid, msg }) => (msg === 'request answered' ? [pid] : []))),
  ]
  const countLines = (running: RunningProcess, text: string) =>
    readLines(running).filter(({ msg }) => msg.includes(text)).length
  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }

  const server = await start({ SHUTDOWN_DELAY: '500' })
  const { url, child, output } = server
  /** On connections of their own, which are given to the processes in turn. */
  const readOften = async (t: Test) => {
    const own = { ...headers, connection: 'close' }
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => fetch(`${url}/api/v1/products?limit=1`, { headers: own })),
    )
    t.same([...new Set(replies.map(({ status }) => status))], [200])
  }
  const readCounts = async () => {
    const reply = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })
    const metrics = parseExposition(await reply.text())
    return {
      lists: sumSamples(metrics, 'http_requests_total', { route: '/products', method: 'GET' }),
      poolSize: sumSamples(metrics, 'database_pool_size'),
      up: sumSamples(metrics, 'database_up'),
    }
  }
  /** Sends requests until it is called again, and returns those that failed. One client asks whether the service is ready. */
  function startClients() {
    const failed: unknown[] = []
    let isOver = false
    const clients = Array.from({ length: 6 }, async (_, i) => {
      const path = i === 0 ? '/readyz' : '/api/v1/users?limit=1'
      const own = i < 3 ? { ...headers, connection: 'close' } : headers
      while (!isOver) {
        const signal = AbortSignal.timeout(TIMEOUT_MS)
        const reply = await fetch(url + path, { headers: own, signal }).catch((error: unknown) => error)
        if (reply instanceof Response && reply.status === 200) await reply.text()
        else failed.push(reply)
      }
    })
    return async () => {
      isOver = true
      await Promise.all(clients)
      return { failed, clients: clients.length }
    }
  }
  const emails = Array.from({ length: 20 }, (_, i) => `user${i}@example.com`)
  const readRecipients = async () => (await mailbox.read()).map(getRecipient).sort()

  await t.test('each answers requests, and any of them has the metrics of all', async (t) => {
    t.match(output.out, new RegExp(`^Ready at ${url}, documentation`, 'm'))
    t.equal(output.out.match(/Ready at/g)?.length, 1)
    t.equal(countLines(server, 'without REDIS_URL'), 1)
    await readOften(t)
    for (const path of ['/livez', '/readyz']) t.equal((await fetch(url + path)).status, 200)
    t.equal(readPids(server).length, 2)
    for (let i = 0; i < 4; i += 1) t.same(await readCounts(), { lists: 10, poolSize: 20, up: 1 })
  })

  await t.test('the work of requests is done once', async (t) => {
    const admin = createClient(url, headers)
    const created = await Promise.all(
      emails.map(async (email) => (await admin.post('/users', { name: 'Ada', email })).status),
    )
    t.same([...new Set(created)], [201])
    // Each user is invited by a mail.
    await waitUntil(async () => (await readRecipients()).length >= emails.length)
    const readRecorded = async () => {
      const events = await admin.get('/events?type=users.created&limit=100')
      const recorded: string[] = events.body.data.map(({ data }: { data: { email: string } }) => data.email)
      return recorded.filter((email) => emails.includes(email)).sort()
    }
    await waitUntil(async () => (await readRecorded()).length >= emails.length)
    t.same(await readRecorded(), emails.toSorted())
  })

  await t.test('one that is killed is started again while the others serve', async (t) => {
    const before = (await readCounts()).lists
    const [killed = 0, other = 0] = readPids(server)
    const stop = startClients()
    process.kill(killed, 'SIGKILL')
    await waitUntil(() => countLines(server, 'a worker process has ended') === 1)
    await readOften(t)
    t.equal((await readCounts()).lists, before + 10, 'what it had counted stays')
    await waitUntil(async () => {
      await readOften(t)
      return readPids(server).length === 3
    })
    t.same([killed, other].map(isAlive), [false, true])
    t.ok((await readCounts()).lists > before + 10)
    const { failed, clients } = await stop()
    t.ok(failed.length <= clients, `${failed.length} of ${clients} clients had a request at the killed one`)
    const getTime = (line: Line | undefined) => Date.parse(line?.time ?? '')
    const lines = readLines(server)
    const endedAt = getTime(lines.find(({ msg }) => msg.includes('a worker process has ended')))
    const startedAt = getTime(lines.findLast(({ msg }) => msg.startsWith('Server listening')))
    t.ok(startedAt - endedAt >= 1_000, 'after a pause')
  })

  await t.test('SIGUSR2 replaces them one after another, and no request fails', async (t) => {
    const old = readPids(server)
    const stop = startClients()
    child.kill('SIGUSR2')
    await waitUntil(() => countLines(server, 'the worker processes are replaced') === 1)
    t.same((await stop()).failed, [])
    t.same(old.filter(isAlive), [])
    await readOften(t)
    t.equal(readPids(server).filter(isAlive).length, 2)
    t.equal(countLines(server, 'a worker process has ended'), 1)
  })

  await t.test('on SIGTERM they complete running requests and end with exit code 0', async (t) => {
    const body = JSON.stringify({ sku: 'SLOW-1', name: 'Half sent', price_amount: 1 })
    const sent = { ...headers, 'content-type': 'application/json', expect: '100-continue' }
    const running = httpRequest(`${url}/api/v1/products`, { method: 'POST', headers: sent })
    const answered = once(running, 'response')
    const begun = once(running, 'continue')
    running.flushHeaders()
    await begun
    running.write(body.slice(0, 20))
    const before = countLines(server, 'shutting down')
    child.kill('SIGTERM')
    await waitUntil(() => countLines(server, 'shutting down') === before + 2)
    t.equal((await fetch(`${url}/readyz`)).status, 503)
    running.end(body.slice(20))
    const [reply] = await answered
    t.equal(reply.statusCode, 201)
    reply.resume()
    t.same(await server.ended, { code: 0, signal: null })
    t.same(readPids(server).filter(isAlive), [])
    t.same(await readRecipients(), emails.toSorted(), 'each mail was sent once')
  })

  await t.test(
    'each closes connections beyond its limit, and a second signal ends all immediately',
    async (t) => {
      const patient = await start({ SHUTDOWN_DELAY: '60000', MAX_CONNECTIONS: '2' })
      for (let i = 0; i < 2; i += 1) await fetch(`${patient.url}/docs`, { headers: { connection: 'close' } })
      await waitUntil(() => readPids(patient).length === 2)
      const pids = readPids(patient)
      let closed = 0
      const sockets = Array.from({ length: 6 }, () =>
        connect(Number(new URL(patient.url).port), '127.0.0.1').on('close', () => {
          closed += 1
        }),
      )
      await waitUntil(() => closed === 2)
      t.equal(sockets.filter(({ destroyed }) => !destroyed).length, 4, 'MAX_CONNECTIONS are open at each')
      patient.child.kill('SIGTERM')
      await waitUntil(() => countLines(patient, 'shutting down') === 2)
      // A signal that is repeated sooner counts as the first one.
      await wait(400)
      patient.child.kill('SIGTERM')
      t.same(await patient.ended, { code: 143, signal: null })
      await waitUntil(() => !pids.some(isAlive))
    },
  )

  await t.test('what keeps one from starting is said once', async (t) => {
    const other = createServer()
    t.teardown(() => other.close())
    const port = await listen(other)
    const { output, ended } = startModule(t, 'server.ts', { ...settings, PORT: String(port) }, [], SHORT_RUN)
    t.same(await ended, { code: 1, signal: null })
    t.match(
      output.err,
      new RegExp(`^The service cannot start: Port ${port} on 127\\.0\\.0\\.1 is in use.*\n$`),
    )
  })
})
