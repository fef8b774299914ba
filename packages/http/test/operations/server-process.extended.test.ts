/** The server process explains why it does not start, and stops without losing a request. */
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { get } from 'node:https'
import { createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type Owner, SERVER, testFolder } from '../../../testing/helpers/database.ts'
import { createCertificate, listen } from '../../../testing/helpers/network.ts'
import {
  createServerSettings,
  SHORT_RUN,
  startModule,
  startServer,
} from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const KEY = 'test-admin-key-test-admin-key-test-admin-key'
/** One database for all, one server at a time. */
const settings = await createServerSettings(t)
const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true', SHUTDOWN_DELAY: '0', HOST: '127.0.0.1' }

const start = (t: Owner, own: NodeJS.ProcessEnv) => startServer(t, own, 'server.ts', SHORT_RUN)
const run = (t: Owner, own: NodeJS.ProcessEnv, args: readonly string[] = []) =>
  startModule(t, 'server.ts', own, args, SHORT_RUN)

t.test('a server that cannot start says why, with exit code 1', async (t) => {
  const other = createServer()
  t.teardown(() => other.close())
  const port = await listen(other)
  if (SERVER === undefined) await start(t, settings)
  const wrong = { NODE_ENV: 'production', PORT: 'x', ADMIN_PASSWORD: 'hunter2' }
  const cases: [name: string, own: NodeJS.ProcessEnv, message: RegExp, skip?: boolean][] = [
    [
      'all invalid settings',
      wrong,
      /^Invalid settings:\n {2}PORT .*\n {2}ADMIN_PASSWORD (?!.*hunter2).*\n {2}APP_SECRET .*\n {2}TLS_KEY .*\n$/,
    ],
    [
      'a port in use',
      { DATA_DIR: testFolder(t), PORT: String(port) },
      new RegExp(`^The service cannot start: Port ${port} on 127\\.0\\.0\\.1 is in use.*\n$`),
    ],
    [
      'a data folder in use',
      settings,
      new RegExp(`^The service cannot start: .*${settings.DATA_DIR}.*\n$`),
      SERVER !== undefined,
    ],
    [
      'a data folder that cannot be created',
      { DATA_DIR: '/proc/x/data' },
      /^The service cannot start: The folder \/proc\/x cannot be created; DATA_DIR must be .*\n/,
      process.platform !== 'linux',
    ],
  ]
  for (const [name, own, message, skip = false] of cases) {
    if (skip) continue
    const { output, ended } = run(t, own)
    t.same(await ended, { code: 1, signal: null }, name)
    t.match(output.err, message, name)
    if (own === wrong) t.equal(output.out, '')
  }
})

t.test('a start shows its addresses', async (t) => {
  const { url, output } = await start(t, settings)
  t.match(output.out, new RegExp(`^Ready at ${url}, documentation at ${url}/docs$`, 'm'))
  t.equal((await fetch(`${url}/docs`)).status, 200)
})

t.test('in production standard output contains JSON lines only', async (t) => {
  const { url, output, child, ended } = await start(t, { ...settings, ...production, ADMIN_API_KEY: KEY })
  await fetch(`${url}/api/v1/products?search=hunter2`, { headers: { 'x-api-key': KEY } })
  child.kill('SIGTERM')
  await ended
  const lines = output.out.trim().split('\n')
  t.ok(lines.length >= 4)
  for (const line of lines) t.doesNotThrow(() => JSON.parse(line), line)
  t.notMatch(output.out, new RegExp(`hunter2|${KEY}`))
  t.equal(output.err, '')
})

t.test('on SIGTERM readyz is 503, running requests complete, and the exit code is 0', async (t) => {
  const own = { ...settings, ADMIN_API_KEY: KEY, SHUTDOWN_DELAY: '1500' }
  const { url, child, ended } = await start(t, own)
  t.equal((await fetch(`${url}/readyz`)).status, 200)
  const body = JSON.stringify({ sku: 'SLOW-1', name: 'Half sent', price_amount: 1 })
  const headers = {
    ...{ 'x-api-key': KEY, 'content-type': 'application/json', 'content-length': body.length },
    expect: '100-continue',
  }
  const running = httpRequest(`${url}/api/v1/products`, { method: 'POST', headers })
  const answered = once(running, 'response')
  const begun = once(running, 'continue')
  running.flushHeaders()
  await begun
  running.write(body.slice(0, 20))
  child.kill('SIGTERM')
  let ready = await fetch(`${url}/readyz`)
  await waitUntil(async () => {
    if (ready.status !== 503) ready = await fetch(`${url}/readyz`)
    return ready.status === 503
  })
  t.equal(ready.headers.get('connection'), 'close')
  t.equal((await fetch(`${url}/livez`)).status, 200)
  // After the delay nothing new is taken.
  const isRefused = () =>
    fetch(`${url}/livez`).then(
      () => false,
      () => true,
    )
  await waitUntil(isRefused)
  running.end(body.slice(20))
  const [reply] = await answered
  t.equal(reply.statusCode, 201, 'what had begun is finished')
  t.equal(reply.headers.connection, 'close')
  reply.resume()
  t.same(await ended, { code: 0, signal: null })
})

t.test('a second signal ends the process immediately, a duplicate of the first does not', async (t) => {
  const patient = await start(t, { ...settings, LOG_LEVEL: 'info', SHUTDOWN_DELAY: '60000' })
  patient.child.kill('SIGINT')
  await waitUntil(() => patient.output.out.includes('"shutting down"'))
  // Longer than npm takes to repeat the signal of a terminal, counted from the first one.
  await wait(400)
  t.equal(patient.child.exitCode, null)
  patient.child.kill('SIGTERM')
  t.same(await patient.ended, { code: 143, signal: null })
  const brief = await start(t, { ...settings, LOG_LEVEL: 'silent', SHUTDOWN_DELAY: '600' })
  brief.child.kill('SIGINT')
  brief.child.kill('SIGINT')
  t.same(await brief.ended, { code: 0, signal: null })
})

t.test('a rejected promise that no code awaits is logged and counted, and the server goes on', async (t) => {
  const stray = `process.on('SIGUSR2', () => void Promise.reject(new Error('stray')))`
  const flags = [...SHORT_RUN, `--import=data:text/javascript,${encodeURIComponent(stray)}`]
  const metrics = { METRICS_TOKEN: KEY }
  const { url, child, output, ended } = await startServer(t, { ...settings, ...metrics }, 'server.ts', flags)
  const count = async () => {
    const reply = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
    return /^process_stray_rejections_total (\d+)$/m.exec(await reply.text())?.[1]
  }
  t.equal(await count(), '0')
  child.kill('SIGUSR2')
  await waitUntil(() => output.out.includes('no code awaits'))
  t.match(
    output.out,
    /"level":"error".*"message":"stray".*"msg":"a promise was rejected that no code awaits"/,
  )
  t.equal(await count(), '1')
  child.kill('SIGTERM')
  t.same(await ended, { code: 0, signal: null })
})

t.test("the health check uses the server's settings and fails without a server", async (t) => {
  const tls = createCertificate(testFolder(t))
  for (const extra of [{}, { ...tls, NODE_ENV: 'production', HOST: '127.0.0.1', SHUTDOWN_DELAY: '0' }]) {
    const server = await start(t, { ...settings, ...extra })
    const own = { ...settings, ...extra, PORT: new URL(server.url).port }
    t.equal((await run(t, own, ['--health']).ended).code, 0, server.url)
    if ('TLS_KEY' in extra) {
      const options = { rejectUnauthorized: false, agent: false }
      const [reply] = await once(get(`${server.url}/readyz`, options), 'response')
      t.equal(reply.statusCode, 200)
      reply.resume()
    }
    server.child.kill('SIGTERM')
    t.equal((await server.ended).code, 0)
    t.equal((await run(t, own, ['--health']).ended).code, 1)
  }
})
