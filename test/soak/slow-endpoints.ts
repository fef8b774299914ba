/** Measures how long deliveries to a quick endpoint take while many endpoints of others are slow or dead. */
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { openDatabase } from '../../drizzle/client/index.ts'
import { type Client, createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { type Receiver, startReceiver } from '../helpers/webhook-receiver.ts'
import { createEndpoint } from '../helpers/webhooks.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'

export interface SlowEndpointsOptions {
  settings: NodeJS.ProcessEnv
  /** The module to run: `server.js` for the build. */
  file: string
  /** How many endpoints of one owner answer after 9.9 s, and how many of another one never. */
  slow: number
  dead: number
  /** Seconds in which each second an event is delivered to the quick endpoint. */
  seconds: number
}

export interface SlowEndpointsReport {
  /** Milliseconds from the response to a change to the arrival of its webhook. */
  delays: number[]
  /** Events that did not arrive. */
  missing: number
  /** Requests that the slow and the dead endpoints got. */
  slowRequests: number
  deadRequests: number
  /** The attempts that are stored for them. */
  storedAttempts: number
  /** The most requests of the slow endpoints at the same time. */
  mostConcurrent: number
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const PASSWORD = 'soak-password-soak-password'
const ANSWER_MS = 9_900
/** Deliveries that are due of each slow or dead endpoint at the beginning. */
const BACKLOG = 200

/** Creates a manager. @returns a client with a session */
async function signUpManager(base: string, admin: Client, name: string): Promise<Client> {
  const email = `${name}@example.com`
  const created = await admin.post('/users', { name, email, password: PASSWORD, role: 'manager' })
  if (created.status !== 201) throw new Error(created.text)
  const anybody = createClient(base, {})
  const grant = await anybody.post('/tokens', { grant_type: 'password', email, password: PASSWORD })
  if (grant.status !== 201) throw new Error(grant.text)
  return createClient(base, { authorization: `Bearer ${grant.body.data.access_token}` })
}

/** Changes products, one each second. @returns the times at which the changes were answered, by the id of the product */
async function makeChanges(admin: Client, seconds: number): Promise<Map<string, number>> {
  const changes = new Map<string, number>()
  for (let second = 0; second < seconds; second++) {
    const reply = await admin.post('/products', { sku: `S-${second}`, name: 'Tea', price_amount: 5 })
    if (reply.status !== 201) throw new Error(reply.text)
    changes.set(reply.body.data.id, performance.now())
    await wait(1_000)
  }
  return changes
}

export async function measureSlowEndpoints(
  t: Owner,
  { settings, file, slow, dead, seconds }: SlowEndpointsOptions,
): Promise<SlowEndpointsReport> {
  const server = await startServer(t, { ...settings, ...WITHOUT_LIMITS, PORT: '0', ADMIN_API_KEY: KEY }, file)
  const admin = createClient(server.url, { 'x-api-key': KEY })
  const receivers = {
    slow: await startReceiver(t),
    dead: await startReceiver(t),
    quick: await startReceiver(t),
  }
  let concurrent = 0
  let mostConcurrent = 0
  receivers.slow.respond = (response) => {
    concurrent += 1
    mostConcurrent = Math.max(mostConcurrent, concurrent)
    setTimeout(() => response.end(), ANSWER_MS).unref()
    response.on('close', () => (concurrent -= 1))
  }
  receivers.dead.respond = () => {}

  const createMany = async (receiver: Receiver, name: string, count: number) => {
    const owner = await signUpManager(server.url, admin, name)
    for (let i = 0; i < count; i++) await createEndpoint(owner, receiver.url, { event_types: ['posts.*'] })
  }
  await createMany(receivers.slow, 'slow', slow)
  await createMany(receivers.dead, 'dead', dead)
  const database = await openDatabase({ url: settings.DATABASE_URL, poolSize: 1 })
  t.teardown(() => database.close())
  await database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select id, user_id, gen_random_uuid(), 'webhook-endpoints.test', now()
     from webhook_endpoints, generate_series(1, ${BACKLOG})`,
  )
  const quickOwner = await signUpManager(server.url, admin, 'quick')
  await createEndpoint(quickOwner, receivers.quick.url)
  const changes = await makeChanges(admin, seconds)
  await wait(2_000)

  const arrivals = new Map(
    receivers.quick.received.map(({ body, at }) => [String(body.data.resource_id), at]),
  )
  const delays = [...changes].flatMap(([id, at]) => {
    const arrival = arrivals.get(id)
    return arrival === undefined ? [] : Math.max(0, arrival - at)
  })
  const [stored] = await database.execute<{ attempts: number }>(
    sql`select sum(attempts)::int8 as attempts from webhook_deliveries where event_type = 'webhook-endpoints.test'`,
  )
  return {
    delays,
    missing: changes.size - delays.length,
    slowRequests: receivers.slow.received.length,
    deadRequests: receivers.dead.received.length,
    storedAttempts: stored?.attempts ?? 0,
    mostConcurrent,
  }
}
