/** Restarting two processes one after another, as deploy/README.md describes, fails no request behind the proxies. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { SERVER } from '../../packages/testing/helpers/database.ts'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import { createServerSettings, startServer } from '../../packages/testing/helpers/process.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { proxies, startProxy } from './start-proxy.ts'

const KEY = 'key-of-the-restart-test-key-of-the-restart-test'
const CLIENTS = 4
const MAX_PAUSE_MS = 250
/** Of each proxy, so that some arrive at each moment of a restart. */
const MIN_REQUESTS = 200
const common = {
  NODE_ENV: 'production',
  TRUST_PROXY: '127.0.0.1',
  HOST: '127.0.0.1',
  ADMIN_API_KEY: KEY,
}

t.test('restarting two processes in turn behind the sample proxies fails no request', async (t) => {
  // SHUTDOWN_DELAY is that of production. An embedded database has one process, so that each has its own.
  const shared = await createServerSettings(t)
  const processes = await Promise.all(
    [shared, SERVER ? shared : await createServerSettings(t)].map(async (database) => {
      const settings = { ...database, ...common, PORT: String(await findFreePort()) }
      return { settings, running: await startServer(t, settings) }
    }),
  )
  const [one = 0, two = 0] = processes.map(({ settings }) => Number(settings.PORT))
  const started = await Promise.all(proxies.map((proxy) => startProxy(t, proxy, one, two)))

  let isOver = false
  const failed: string[] = []
  const answered = new Map(proxies.map(({ name }) => [name, 0]))
  const clients = proxies.flatMap(({ name, checksReadiness }, i) =>
    Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; !isOver; n += 1) {
        const id = `${name}-${client}-${n}-of-restarts`
        const headers = { 'X-API-Key': KEY, 'Content-Type': 'application/json', 'X-Request-Id': id }
        const product = JSON.stringify({ sku: `${name}-${client}-${n}`, name: 'Tea', price_amount: 1 })
        const requests = [
          { options: { path: '/products?limit=5', headers }, expected: 200 },
          // nginx would have to repeat a POST that arrives just when the port closes.
          ...(checksReadiness
            ? [{ options: { path: '/products', method: 'POST', headers }, body: product, expected: 201 }]
            : []),
        ]
        for (const { options, body, expected } of requests) {
          const outcome = await started[i]?.read(options, body).then(
            (reply) => (reply.status === expected ? undefined : `${reply.status} ${reply.body}`),
            (error) => String(error),
          )
          if (outcome !== undefined) failed.push(`${name}: ${outcome}`)
          answered.set(name, (answered.get(name) ?? 0) + 1)
          await wait(Math.random() * MAX_PAUSE_MS)
        }
      }
    }),
  )
  for (const each of processes) {
    each.running.child.kill('SIGTERM')
    t.equal((await each.running.ended).code, 0)
    each.running = await startServer(t, each.settings)
    // The next process is stopped when each proxy uses this one: deploy/README.md waits a few seconds for it.
    const { output } = each.running
    await waitUntil(() => proxies.every(({ name }) => output.out.includes(`"request_id":"${name}-`)))
  }
  await waitUntil(() => [...answered.values()].every((count) => count > MIN_REQUESTS))
  isOver = true
  await Promise.all(clients)
  t.same(failed, [])
})
