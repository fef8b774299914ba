/** The load of the replicas test: readers, and writers that check that they read their own writes. */
import type { Database } from '../../drizzle/client/index.ts'
import type { Client, Reply } from '../helpers/app.ts'

export interface User {
  id: string
  client: Client
}

const choose = <T>(values: readonly T[]): T | undefined => values[Math.floor(Math.random() * values.length)]

export class ReplicaLoad {
  /** A line for each request without a response or with an unexpected status. */
  readonly failed: string[] = []
  /** Requests refused because a busy machine delayed the event loop; not a failure of a component. */
  overloaded = 0
  /** A line for each read that lacks an earlier write of the same user. */
  readonly stale: string[] = []
  /** The same reads on the standby itself: their number, and how many lack the write. */
  readonly standbyReads = { total: 0, stale: 0 }
  /** Milliseconds of each response, and the number of writes, of the current phase. */
  times: number[] = []
  writes = 0
  standby: Database | undefined
  readonly #productIds: readonly string[]
  readonly #replicaLagMs: number
  #isOver = false

  constructor(productIds: readonly string[], replicaLagSeconds: number) {
    this.#productIds = productIds
    this.#replicaLagMs = replicaLagSeconds * 1000
  }

  /** Runs a phase: a reader for each second user and a writer for each other one, until `work` ends. */
  async run(users: readonly User[], work: () => Promise<unknown>): Promise<void> {
    Object.assign(this, { times: [], writes: 0 })
    this.#isOver = false
    const running = users.map((user, i) => (i % 2 === 0 ? this.#write(user) : this.#read(user)))
    await work()
    this.#isOver = true
    await Promise.all(running)
  }

  async #read({ client }: User): Promise<void> {
    while (!this.#isOver) await this.#readProducts(client)
  }

  /** Writes, then reads the result repeatedly, often for longer than reads go to the primary. */
  async #write(user: User): Promise<void> {
    const { id, client } = user
    for (let i = 1; !this.#isOver; i++) {
      const name = String(i)
      const patched = await this.#send('PATCH', 200, () => client.patch(`/users/${id}`, { name }))
      const post = { title: name, body: 'Soak post' }
      const posted = await this.#send('POST', 201, () => client.post('/users/me/posts', post))
      this.writes += 2
      if (!patched || !posted) continue
      void this.#readStandby(id, name)
      const writtenAt = performance.now()
      const readUntil = writtenAt + (0.2 + Math.random() * 1.6) * this.#replicaLagMs
      while (!this.#isOver && performance.now() < readUntil) {
        await this.#checkOwnWrites(user, name, writtenAt)
        await this.#readProducts(client)
      }
    }
  }

  /** Sends a request and records its time. Returns undefined, and records a failure, for an unexpected status. */
  async #send(name: string, expected: number, send: () => Promise<Reply>): Promise<Reply | undefined> {
    const startedAt = performance.now()
    const reply = await send().catch((error: unknown) => String(error))
    if (typeof reply === 'string') {
      this.failed.push(`${name}: ${reply}`)
      return undefined
    }
    this.times.push(performance.now() - startedAt)
    if (reply.status === expected) return reply
    if (reply.body?.error?.message === 'The service is overloaded') this.overloaded += 1
    else this.failed.push(`${name} returned ${reply.status}: ${reply.text.slice(0, 200)}`)
    return undefined
  }

  async #readProducts(client: Client): Promise<void> {
    const id = choose(this.#productIds)
    const path = `/products${choose([`/${id}`, `/${id}`, '', '?search=steel&limit=5'])}`
    await this.#send(path, 200, () => client.get(path))
  }

  /** Counts how often a read sent to the standby without regard to the write would be stale. */
  async #readStandby(id: string, name: string): Promise<void> {
    // It fails while the standby is stopped.
    const rows = await this.standby?.run('select name from users where id = $1', [id]).catch(() => undefined)
    if (!rows) return
    this.standbyReads.total += 1
    if (rows[0]?.name !== name) this.standbyReads.stale += 1
  }

  /** Reads the user's name and newest post, and records a finding for each that is older than the write. */
  async #checkOwnWrites({ id, client }: User, name: string, writtenAt: number): Promise<void> {
    const formatDelay = () => `${(performance.now() - writtenAt).toFixed()} ms after the write`
    const own = await this.#send('GET own', 200, () => client.get(`/users/${id}?fields=name`))
    if (own && own.body.data.name !== name) this.stale.push(`name ${own.body.data.name}, ${formatDelay()}`)
    const list = await this.#send('GET posts', 200, () => client.get('/users/me/posts?limit=1'))
    if (list && list.body.data[0]?.title !== name) this.stale.push(`posts, ${formatDelay()}`)
  }
}
