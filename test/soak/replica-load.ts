/** The load of the replicas test: readers, and writers that check that they read their own writes. */
import type { Database } from '../../drizzle/client/index.ts'
import type { Client, Reply } from '../helpers/app.ts'

export interface LoadFindings {
  /** A line for each request without a response or with an unexpected status. */
  failed: string[]
  /** Requests refused because a busy machine delayed the event loop; not a failure of a component. */
  overloaded: number
  /** A line for each read that lacks an earlier write of the same user. */
  stale: string[]
  /** The same reads on the standby itself: their number, and how many lack the write. */
  standbyReads: { total: number; stale: number }
}

export interface ReplicaLoad {
  findings: LoadFindings
  /** Milliseconds of each response. */
  times: number[]
  writes: number
  isOver: boolean
  standby: Database | undefined
  productIds: readonly string[]
  /** REPLICA_LAG in seconds: for this time after a write, a user's reads go to the primary. */
  replicaLag: number
}

export interface User {
  id: string
  client: Client
}

/** Sends a request and records its time. Returns undefined, and records a failure, for an unexpected status. */
async function sendRequest(load: ReplicaLoad, name: string, expected: number, send: () => Promise<Reply>) {
  const startedAt = performance.now()
  try {
    const reply = await send()
    load.times.push(performance.now() - startedAt)
    if (reply.status === expected) return reply
    if (reply.body?.error?.message === 'The service is overloaded') {
      load.findings.overloaded += 1
      return undefined
    }
    load.findings.failed.push(`${name} returned ${reply.status}: ${reply.text.slice(0, 200)}`)
  } catch (error) {
    load.findings.failed.push(`${name}: ${error}`)
  }
  return undefined
}

async function readProducts(load: ReplicaLoad, client: Client) {
  const id = load.productIds[Math.floor(Math.random() * load.productIds.length)]
  const paths = [`/products/${id}`, `/products/${id}`, '/products', '/products?search=steel&limit=5']
  const path = paths[Math.floor(Math.random() * paths.length)] ?? ''
  await sendRequest(load, path, 200, () => client.get(path))
}

export async function runReader(load: ReplicaLoad, { client }: User) {
  while (!load.isOver) await readProducts(load, client)
}

/** Counts how often a read sent to the standby without regard to the write would be stale. */
async function readStandby({ findings, standby }: ReplicaLoad, { id }: User, name: string) {
  try {
    const rows = await standby?.run('select name from users where id = $1', [id])
    if (!rows) return
    findings.standbyReads.total += 1
    if (rows[0]?.name !== name) findings.standbyReads.stale += 1
  } catch {
    // The standby is stopped.
  }
}

/** Reads the user's name and newest post, and records a finding for each that is older than the write. */
async function checkOwnWrites(load: ReplicaLoad, { id, client }: User, name: string, writtenAt: number) {
  const { stale } = load.findings
  const formatDelay = () => `${(performance.now() - writtenAt).toFixed()} ms after the write`
  const own = await sendRequest(load, 'GET own', 200, () => client.get(`/users/${id}?fields=name`))
  if (own && own.body.data.name !== name) stale.push(`name ${own.body.data.name}, ${formatDelay()}`)
  const list = await sendRequest(load, 'GET posts', 200, () => client.get('/users/me/posts?limit=1'))
  if (list && list.body.data[0]?.title !== name) stale.push(`posts, ${formatDelay()}`)
}

/** Writes, then reads the result repeatedly, often for longer than reads go to the primary. */
export async function runReplicaWriter(load: ReplicaLoad, user: User) {
  const { id, client } = user
  for (let i = 1; !load.isOver; i++) {
    const name = String(i)
    const patched = await sendRequest(load, 'PATCH', 200, () => client.patch(`/users/${id}`, { name }))
    const post = { title: name, body: 'Soak post' }
    const posted = await sendRequest(load, 'POST', 201, () => client.post('/users/me/posts', post))
    load.writes += 2
    if (!patched || !posted) continue
    void readStandby(load, user, name)
    const writtenAt = performance.now()
    const readUntil = writtenAt + (0.2 + Math.random() * 1.6) * load.replicaLag * 1000
    while (!load.isOver && performance.now() < readUntil) {
      await checkOwnWrites(load, user, name, writtenAt)
      await readProducts(load, client)
    }
  }
}
