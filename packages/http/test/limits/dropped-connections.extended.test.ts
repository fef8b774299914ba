/** A request gives back all that it has taken when its connection ends, in any phase, by FIN and by RST. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import type { Semaphore } from '../../../database/src/lib/semaphore.ts'
import { type Person, quickHasher, type TestApp, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { insertManyEvents, readFeed } from '../../../testing/helpers/events.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred, type Deferred, waitUntil } from '../../../testing/helpers/time.ts'

/** Without a fix, a place that was lost is never given back: waiting longer would only delay the failure. */
const LOST_AFTER_MS = 20_000
const { REDIS_URL } = process.env

/** Work that is held from its first call on until it is released. */
interface Hold {
  reached: Deferred
  released: Deferred
}

const createHold = (): Hold => ({ reached: createDeferred(), released: createDeferred() })

async function pass({ reached, released }: Hold): Promise<void> {
  reached.resolve()
  await released.promise
}

/** A database whose statements that match a pattern are held. */
function createHeldDatabase(opened: Database) {
  const state: { pattern: RegExp | undefined; hold: Hold } = { pattern: undefined, hold: createHold() }
  const database = intercept(opened, (text) => (state.pattern?.test(text) ? pass(state.hold) : undefined))
  return { database, state }
}

async function startApp(t: Test, own: Record<string, string> = {}) {
  const { database, state } = createHeldDatabase(await testDatabase(t))
  const hashing: { hold: Hold | undefined } = { hold: undefined }
  const settings = { USER_CONCURRENCY: '1', PASSWORD_HASHES: '1', METRICS_TOKEN: 'a-token-of-the-metrics' }
  const test = await testApp(
    t,
    { ...settings, ...own, ...(REDIS_URL && { REDIS_URL }) },
    {
      database,
      passwordHasher: {
        ...quickHasher,
        hash: async (password) => {
          if (hashing.hold) await pass(hashing.hold)
          return quickHasher.hash(password)
        },
      },
      // A timer that is left behind must not end within the test.
      timeouts: { responseTimeoutMs: 3_600_000 },
    },
  )
  const connections: Socket[] = []
  const responses: ServerResponse[] = []
  test.app.server.on('connection', (socket) => connections.push(socket))
  test.app.server.on('request', (_request, response) => responses.push(response))
  return { ...test, state, hashing, connections, responses, users: recordUsers(test) }
}

/** Returns the users of whom a request has taken a place. */
function recordUsers({ app: { concurrency } }: TestApp): Set<string> {
  const users = new Set<string>()
  const { acquire } = concurrency
  concurrency.acquire = (request, reply, userId, cost) => {
    acquire(request, reply, userId, cost)
    users.add(userId)
  }
  return users
}

type App = Awaited<ReturnType<typeof startApp>>

interface Sent {
  app: App
  person: Person
  /** The connection, at its two ends. */
  socket: Socket
  serverSocket: Socket
  /** Writes a request with the person's key, as `writeRequest` returns it. */
  send(line: string, body?: unknown, fields?: string): void
  /** Waits until a request of the person has taken the place of its user. */
  untilTaken(): Promise<void>
}

interface Phase {
  /** Brings the request into the phase. Resolves to a function that lets the request go on. */
  enter(sent: Sent): Promise<() => unknown>
  /** Whether work has begun, which runs to its end and holds the place of the user until then. */
  isAtWork?: boolean
  /** Checks what the work has done. */
  check?(t: Test, sent: Sent): Promise<void>
}

const STREAM = 'Accept: text/event-stream\r\n'

/** Returns a request with an API key, and a body as JSON. `fields` are further header fields. */
function writeRequest(key: string, line: string, body?: unknown, fields = ''): string {
  const head = `${line} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${key}\r\n${fields}`
  if (body === undefined) return `${head}\r\n`
  const text = JSON.stringify(body)
  return `${head}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
}

const KEYED = 'Idempotency-Key: "once"\r\n'
const UNSENT = 'Content-Type: application/json\r\nContent-Length: 10\r\n'
const NOTHING = () => undefined
const product = (key: string) => ({ sku: key.slice(-20), name: 'Tea', price_amount: 1 })

/** Sends a request and holds the first statement that matches. */
const inStatement =
  (pattern: RegExp, line: string, body?: (key: string) => unknown, headers?: string) =>
  async ({ app: { state }, person, send }: Sent) => {
    Object.assign(state, { pattern, hold: createHold() })
    send(line, body?.(person.key), headers)
    await state.hold.reached.promise
    return () => {
      state.pattern = undefined
      state.hold.released.resolve()
    }
  }

/** Takes all slots of the admission. */
function fillAdmission({ app: { app } }: Sent): () => void {
  // The instance is the semaphore itself; the app offers only its numbers.
  const slots = app.admissionQueue as unknown as Semaphore<object>
  const taken: object[] = []
  for (let slot = slots.take(); slot; slot = slots.take()) taken.push(slot)
  return () => {
    for (const slot of taken) slots.release(slot)
  }
}

/** Holds all connections of the database. */
function fillPool({ app: { database } }: Sent): () => Promise<unknown> {
  const { promise, resolve } = createDeferred()
  const { size } = database.getLoad()
  const held = Promise.allSettled(Array.from({ length: size }, () => database.transaction(() => promise)))
  return () => {
    resolve()
    return held
  }
}

/** Holds the hashing of passwords from the next one on. */
function holdHashing({ hashing }: Pick<App, 'hashing'>) {
  const hold = createHold()
  hashing.hold = hold
  const release = () => {
    hashing.hold = undefined
    hold.released.resolve()
  }
  return { reached: hold.reached.promise, release }
}

const createUser = (key: string) => {
  const email = `${key.slice(-20).toLowerCase()}@example.com`
  return { name: 'Ada', email, password: 'a-long-password-of-hers' }
}

const findUser = ({ app: { database }, person: { key } }: Sent) =>
  database.run('select 1 as found from users where email = $1', [createUser(key).email])

const phases: Record<string, Phase> = {
  'between two requests': {
    async enter({ socket, send }) {
      send('GET /users/me')
      await once(socket, 'data')
      return NOTHING
    },
  },
  'in its body': {
    async enter({ socket, send, untilTaken }) {
      send('POST /products', undefined, UNSENT)
      socket.write('{"sku"')
      await untilTaken()
      return NOTHING
    },
  },
  'while its credential is looked up, with a body': {
    enter: inStatement(/from "api_keys"/, 'POST /products', product),
    async check(t, { app, person }) {
      const rows = await app.database.run('select 1 from products where sku = $1', [person.key.slice(-20)])
      t.same(rows, [], 'nothing was begun')
    },
  },
  'while it is counted, with a body': {
    async enter({ app: { app }, person, send }) {
      const hold = createHold()
      const { countUser } = app.limits
      app.limits.countUser = async (...args) => {
        await countUser(...args)
        await pass(hold)
      }
      send('POST /products', product(person.key))
      await hold.reached.promise
      app.limits.countUser = countUser
      return hold.released.resolve
    },
  },
  'while it waits for admission': {
    async enter(sent) {
      const empty = fillAdmission(sent)
      sent.send('GET /users/me')
      await waitUntil(() => sent.app.app.admissionQueue.waiting === 1)
      return empty
    },
  },
  'while it waits for admission behind its body': {
    async enter(sent) {
      sent.send('POST /products', undefined, 'Content-Type: application/json\r\nContent-Length: 2\r\n')
      await sent.untilTaken()
      const empty = fillAdmission(sent)
      sent.socket.write('{}')
      await waitUntil(() => sent.app.app.admissionQueue.waiting === 1)
      return empty
    },
  },
  'in the queue of passwords': {
    async enter({ app: { app, hashing, admin }, person, send }) {
      const { reached, release } = holdHashing({ hashing })
      const first = admin.post('/users', createUser(`${person.key}1`))
      await reached
      const queued = createDeferred()
      const { for: createFor } = app.passwords
      app.passwords.for = (...args) => {
        const own = createFor(...args)
        const hash = (text: string) => {
          queued.resolve()
          return own.hash(text)
        }
        return { ...own, hash }
      }
      send('POST /users', createUser(person.key))
      await queued.promise
      app.passwords.for = createFor
      return () => {
        release()
        return first
      }
    },
    check: async (t, sent) => void t.same(await findUser(sent), [], 'nothing was hashed'),
  },
  'while its password is hashed': {
    isAtWork: true,
    async enter({ app, person, send }) {
      const { reached, release } = holdHashing(app)
      send('POST /users', createUser(person.key))
      await reached
      return release
    },
    check: async (t, sent) => void t.same(await findUser(sent), [{ found: 1 }], 'it was carried out'),
  },
  'while it waits for a database connection': {
    isAtWork: true,
    async enter(sent) {
      // So that the credential is known, and only the handler waits.
      await sent.person.client.get('/users/me')
      sent.app.users.clear()
      const empty = fillPool(sent)
      sent.send('GET /products')
      await sent.untilTaken()
      await waitUntil(() => sent.app.database.getLoad().waiting > 0)
      return empty
    },
  },
  'in a statement': { isAtWork: true, enter: inStatement(/from "products"/, 'GET /products') },
  'in a transaction': {
    isAtWork: true,
    async enter(sent) {
      const [id] = await insertRows(sent.app.database, 'products', [{}])
      return inStatement(/from "products".* for update/, `DELETE /products/${id}`)(sent)
    },
  },
  'in a keyed write': {
    isAtWork: true,
    enter: inStatement(/insert into "idempotency_keys"/, 'POST /products', product, KEYED),
    async check(t, { person: { client, key } }) {
      const again = await client.post('/products', product(key), { 'idempotency-key': '"once"' })
      t.match(again, { status: 201, body: { data: { sku: key.slice(-20) } } })
      t.equal(again.headers.get('idempotency-replayed'), 'true')
    },
  },
  'as its response begins': {
    async enter({ app: { app }, send }) {
      const begun = createDeferred()
      app.server.once('request', (_request, response) => {
        response.once('prefinish', () => begun.resolve())
      })
      send('GET /users/me')
      await begun.promise
      return NOTHING
    },
  },
  'with a large response that it does not read': {
    async enter({ app: { database, responses }, socket, person, send }) {
      const notes = Array.from({ length: 100 }, () => ({ user_id: person.id, body: 'x'.repeat(80_000) }))
      await insertRows(database, 'posts', notes)
      const count = responses.length
      socket.pause()
      send('GET /users/me/posts?limit=100')
      await waitUntil(() => responses[count]?.writableEnded === true)
      return NOTHING
    },
  },
  'pipelined behind another': {
    isAtWork: true,
    async enter(sent) {
      const { responses, app } = sent.app
      const count = responses.length
      const release = await inStatement(/from "products"/, 'GET /products')(sent)
      // By another user, and answered already: only the response before it is missing.
      const { key } = await sent.app.person('admin')
      sent.socket.write(writeRequest(key, 'GET /users/me'))
      await waitUntil(() => responses[count + 1]?.writableEnded === true)
      // And this one is at work.
      const other = await sent.app.person('admin')
      sent.socket.write(writeRequest(other.key, 'GET /products'))
      await waitUntil(() => app.admissionQueue.used === 2)
      return release
    },
  },
  'in an open stream': {
    async enter({ app: { app }, socket, send }) {
      send('GET /events', undefined, STREAM)
      await once(socket, 'data')
      await waitUntil(() => app.events.streams.size === 1)
      return NOTHING
    },
    check: openStreams,
  },
  'in a stream that catches up': {
    async enter(sent) {
      const { app, database } = sent.app
      await insertManyEvents(database, 2)
      await app.events.assignAll()
      const { body } = await sent.person.client.get('/events?sort=position&limit=1')
      const release = await inStatement(
        /lateral/,
        `GET /events?cursor=${body.pagination.cursor}`,
        undefined,
        STREAM,
      )(sent)
      await waitUntil(() => app.events.streams.size === 1)
      return release
    },
    check: openStreams,
  },
  'in a stream before its first byte': {
    isAtWork: true,
    async enter(sent) {
      const { streams } = sent.app.app.events
      const asked = createDeferred()
      const { ensureRoom } = streams
      streams.ensureRoom = (userId) => {
        ensureRoom.call(streams, userId)
        asked.resolve()
      }
      const release = await inStatement(/from "event_feed"/, 'GET /events', undefined, STREAM)(sent)
      // The process itself reads the feed once a second, with the same statement.
      await asked.promise
      streams.ensureRoom = ensureRoom
      return release
    },
    check: openStreams,
  },
}

/** Checks that a user can have as many streams as a user may have. */
async function openStreams(t: Test, { app: { port, app }, person: { key } }: Pick<Sent, 'app' | 'person'>) {
  const sockets: Socket[] = []
  for (let count = 0; count < 5; count++) {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    socket.write(writeRequest(key, 'GET /events', undefined, STREAM))
    const [data] = await once(socket, 'data')
    t.match(String(data), /^HTTP\/1.1 200 /)
  }
  for (const socket of sockets) socket.destroy()
  await waitUntil(() => app.events.streams.size === 0)
}

const drops = {
  FIN: (socket: Socket) => socket.destroy(),
  RST: (socket: Socket) => socket.resetAndDestroy(),
}

/** Returns what is taken in the process. */
async function readGauges({ app, database }: App) {
  const { used, waiting } = app.admissionQueue
  const load = database.getLoad()
  const inFlight = await app.metrics?.getSingleMetric('http_requests_in_flight')?.get()
  return {
    admission: used + waiting,
    database: load.used + load.waiting,
    streams: app.events.streams.size,
    inFlight: inFlight?.values[0]?.value,
    timers: process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length,
  }
}

t.test('a dropped connection leaves nothing taken', async (t) => {
  const app = await startApp(t)
  // Until nothing is in flight: the timers of what is then left are those of the process.
  await app.admin.get('/users/me')
  const getCount = async () => {
    const { timers, ...counts } = await readGauges(app)
    return { timers, count: Object.values(counts).reduce<number>((sum, value) => sum + (value ?? 0), 0) }
  }
  await waitUntil(async () => (await getCount()).count === 0)
  const idle = await getCount()

  for (const [name, phase] of Object.entries(phases)) {
    for (const [how, drop] of Object.entries(drops)) {
      await t.test(`${name}, by ${how}`, async (t) => {
        const person = await app.person('admin')
        const socket = connect(app.port, '127.0.0.1').on('error', () => undefined)
        const isOwn = ({ remotePort }: Socket) => remotePort !== undefined && remotePort === socket.localPort
        await waitUntil(() => app.connections.some(isOwn))
        const serverSocket = app.connections.find(isOwn) ?? socket
        const send: Sent['send'] = (...request) => socket.write(writeRequest(person.key, ...request))
        const isTaken = async () => (await person.client.get('/users/me')).status === 429
        const untilTaken = () => waitUntil(() => app.users.has(person.id))
        const sent = { app, person, socket, serverSocket, send, untilTaken }
        const release = await phase.enter(sent)
        drop(socket)
        await waitUntil(() => serverSocket.closed)
        if (phase.isAtWork) t.ok(await isTaken(), 'the work goes on, and holds the place of the user')
        await release()
        await waitUntil(async () => !(await isTaken()), LOST_AFTER_MS)
        await phase.check?.(t, sent)
        const settled = waitUntil(async () => {
          const { timers, count } = await getCount()
          return count === 0 && timers <= idle.timers
        }, LOST_AFTER_MS)
        const reason = await settled.then(
          () => undefined,
          async ({ message }) => `${message}: ${JSON.stringify(await readGauges(app))}`,
        )
        t.equal(reason, undefined)
      })
    }
  }
})

t.test('many connections that are dropped at any moment leave the places of their user', async (t) => {
  const app = await startApp(t, { USER_CONCURRENCY: '5' })
  const person = await app.person('admin')
  const requests = [
    writeRequest(person.key, 'POST /products', product(person.key)),
    writeRequest(person.key, 'GET /events', undefined, STREAM),
  ]
  for (const request of requests) {
    for (let round = 0; round < 24; round++) {
      app.app.credentials.keys.clearCache()
      await Promise.all(
        Array.from({ length: 5 }, async (_, i) => {
          const socket = connect(app.port, '127.0.0.1').on('error', () => undefined)
          await once(socket, 'connect')
          socket.write(request)
          // In any phase: each takes a few turns of the event loop, which the server shares.
          for (let turns = (5 * round + i) % 30; turns > 0; turns--) await nextTurn()
          drops[round % 2 === 0 ? 'FIN' : 'RST'](socket)
        }),
      )
    }
  }
  await waitUntil(() => app.app.admissionQueue.used === 0 && app.app.events.streams.size === 0)
  // All places of the user are free.
  Object.assign(app.state, { pattern: /from "products"/, hold: createHold() })
  const gets = Array.from({ length: 5 }, () => person.client.get('/products'))
  await waitUntil(() => app.app.admissionQueue.used === 5, LOST_AFTER_MS)
  app.state.hold.released.resolve()
  for (const { status } of await Promise.all(gets)) t.equal(status, 200)
  await openStreams(t, { app, person })
})

t.test('a pipelined stream that waits for its reader ends with the connection', async (t) => {
  const { app, admin, database, person, port, responses } = await startApp(t, { USER_CONCURRENCY: '2' })
  await app.events.assignAll()
  const { cursor } = await readFeed(admin)
  await insertManyEvents(database, 3_000)
  await app.events.assignAll()
  const { key } = await person('admin')
  const socket = connect(port, '127.0.0.1')
  const first = writeRequest(key, 'GET /events', undefined, STREAM)
  socket.write(first + writeRequest(key, `GET /events?cursor=${cursor}`, undefined, STREAM))
  // The second response waits behind the first one, which does not end: one listener is of the pipe, one of the stream.
  await waitUntil(() => responses.at(-1)?.listenerCount('drain') === 2)
  socket.destroy()
  await waitUntil(() => app.events.streams.size === 0)
  const stopped = app.events.streams.stop().then(() => true)
  t.ok(await Promise.race([stopped, wait(LOST_AFTER_MS, false, { ref: false })]), 'no work is left')
})
