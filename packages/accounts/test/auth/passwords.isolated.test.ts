/** Passwords are hashed off the event loop, a few at a time, and a sign-in does not reveal which accounts exist. */
import { EventEmitter, once } from 'node:events'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { hash, parseOptions } from '@node-rs/argon2'
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Database } from '../../../database/src/client/index.ts'
import {
  type Client,
  createClient,
  quickHasher,
  type Reply,
  type TestApp,
  testApp,
} from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createDeferred } from '../../../testing/helpers/time.ts'
import { argon2, createPasswords, type PasswordHasher } from '../../src/auth/passwords.ts'

const RIGHT = 'correct horse battery'
const WRONG = 'wrong horse battery'

const signIn = ({ anybody }: TestApp, email: string, password: string) =>
  anybody.post('/tokens', { grant_type: 'password', email, password })

const person = (email: string, members: Record<string, unknown> = {}) => ({ name: 'Ada', email, ...members })

/** Creates a user with a chosen hash of the password. */
async function createWithHash({ admin, database }: TestApp, email: string, hashed: string) {
  const { body } = await admin.post('/users', person(email))
  await database.run('update users set password_hash = $2 where id = $1', [body.data.id, hashed])
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i)

/** Takes 25 ms, as a hash of the service does, but little CPU. */
const idleHasher: PasswordHasher = {
  hash: (password) => sleep(25).then(() => quickHasher.hash(password)),
  verify: (hashed, password) => sleep(25).then(() => quickHasher.verify(hashed, password)),
}

/** A hasher that records its calls and its concurrency. */
function counted(hasher: PasswordHasher) {
  const seen = { hashes: 0, verified: [] as string[], now: 0, most: 0 }
  const count = async <T>(work: Promise<T>): Promise<T> => {
    seen.most = Math.max(seen.most, ++seen.now)
    try {
      return await work
    } finally {
      seen.now--
    }
  }
  const work: PasswordHasher = {
    hash(password) {
      seen.hashes++
      return count(hasher.hash(password))
    },
    verify(hashed, password) {
      seen.verified.push(hashed)
      return count(hasher.verify(hashed, password))
    },
  }
  return { seen, work }
}

for (const concurrency of [1, 3])
  t.test(`PASSWORD_HASHES=${concurrency}: of 30 requests ${concurrency} are hashed at a time`, async (t) => {
    const { seen, work } = counted(idleHasher)
    const settings = { PASSWORD_HASHES: String(concurrency), ALLOW_SIGNUP: 'true' }
    const app = await testApp(t, settings, { passwordHasher: work })
    const owners = await Promise.all(
      upTo(10).map(async (i) => {
        const email = `owner.${i}@example.com`
        await app.admin.post('/users', person(email, { password: RIGHT }))
        const { body } = await signIn(app, email, RIGHT)
        return createClient(app.base, { authorization: `Bearer ${body.data.access_token}` })
      }),
    )
    Object.assign(seen, { hashes: 0, verified: [], most: 0 })
    const change = { password: 'quite another password', current_password: RIGHT }
    const signUp = (i: number) => person(`new.${i}@example.com`, { password: RIGHT })
    const replies = await Promise.all([
      ...upTo(5).map((i) => signIn(app, `owner.${i}@example.com`, WRONG)),
      ...upTo(5).map((i) => signIn(app, `unknown.${i}@example.com`, WRONG)),
      ...upTo(10).map((i) => app.anybody.post('/users', signUp(i))),
      ...owners.map((owner) => owner.patch('/users/me', change)),
    ])
    const statuses = replies.map(({ status }) => status)
    t.same(statuses, [...Array(10).fill(401), ...Array(10).fill(201), ...Array(10).fill(200)])
    t.match(seen, { hashes: 20, most: concurrency })
    t.equal(seen.verified.length, 20)
  })

t.test('the event loop keeps turning while a password is hashed', async (t) => {
  // The hash of RIGHT with 150 passes: its verification takes seconds, of which a reply takes milliseconds.
  const slow =
    '$argon2id$v=19$m=19456,t=150,p=1$+LhoEgXtkbINuGSO4DeQ9A$SsGDq1kuPXU8fg4qwAjzBkpzwcoRq+WqfS0WP1RHKDM'
  const began = new EventEmitter()
  const state = { over: false }
  const work: PasswordHasher = {
    ...argon2,
    async verify(hashed, password) {
      const verifying = argon2.verify(hashed, password)
      began.emit('began')
      const right = await verifying
      state.over = true
      return right
    },
  }
  const app = await testApp(t, {}, { passwordHasher: work })
  await createWithHash(app, 'slow@example.com', slow)

  let turns = 0
  const [, login] = await Promise.all([
    once(began, 'began').then(async () => {
      const loop = setInterval(() => turns++, 1)
      t.equal((await app.admin.get('/users')).status, 200)
      t.notOk(state.over, 'another request is answered first')
      while (!state.over) await sleep(1)
      clearInterval(loop)
    }),
    signIn(app, 'slow@example.com', RIGHT),
  ])
  t.equal(login.status, 201, 'a hash of other parameters still holds')
  t.ok(turns >= 10, `timers fired ${turns} times`)
})

t.test('stored hashes and replies', async (t) => {
  const { seen, work } = counted(argon2)
  const app = await testApp(t, {}, { passwordHasher: work })

  t.test('a hash with other parameters is verified, and a wrong password is rejected', async (t) => {
    for (const [email, parameters] of [
      ['former.1@example.com', { memoryCost: 12_288, timeCost: 3, parallelism: 2 }],
      ['former.2@example.com', { memoryCost: 65_536, timeCost: 1, parallelism: 4, outputLen: 16 }],
    ] as const) {
      await createWithHash(app, email, await hash(RIGHT, parameters))
      t.equal((await signIn(app, email, RIGHT)).status, 201)
      t.equal((await signIn(app, email, WRONG)).status, 401)
    }
  })

  t.test('every failed sign-in costs one verification and gets the same reply', async (t) => {
    for (const [name, members] of [
      ['known', { password: RIGHT }],
      ['bare', {}],
      ['suspended', { password: RIGHT, status: 'suspended' }],
      ['inactive', { password: RIGHT, status: 'inactive' }],
    ] as const)
      await app.admin.post('/users', person(`${name}@example.com`, members))
    Object.assign(seen, { hashes: 0, verified: [] })
    for (const [name, password] of [
      ['unknown', RIGHT],
      ['known', WRONG],
      ['bare', RIGHT],
      ['suspended', RIGHT],
      ['suspended', WRONG],
      ['inactive', RIGHT],
    ] as const) {
      const { status, headers, body } = await signIn(app, `${name}@example.com`, password)
      const { request_id: _, ...error } = body.error
      t.strictSame([status, headers.get('www-authenticate')], [401, 'Bearer realm="resource-api"'], name)
      t.strictSame(error, { code: 'UNAUTHORIZED', message: 'Invalid email address or password' }, name)
    }
    t.same([seen.verified.length, seen.hashes], [6, 0])
    const same = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32, saltLen: 16 }
    for (const hashed of seen.verified) t.match(parseOptions(hashed), same)
    t.equal((await signIn(app, 'known@example.com', RIGHT)).status, 201)
  })

  t.test('current_password of a user without a password is always wrong', async (t) => {
    Object.assign(seen, { hashes: 0, verified: [] })
    const { bearer } = await app.person('member')
    const reply = await bearer.patch('/users/me', { password: RIGHT, current_password: WRONG })
    t.equal(reply.status, 403)
    t.strictSame([seen.verified.length, seen.hashes], [1, 0], 'the new one was not hashed')
  })
})

t.test('100 accounts wait, more get 503, and a disconnected client is not verified', async (t) => {
  const verified: number[] = []
  const { promise: held, resolve: release } = createDeferred()
  const work: PasswordHasher = {
    ...argon2,
    async verify(_, password) {
      verified.push(Number(password.split(' ').at(-1)))
      await held
      return false
    },
  }
  const { app, port } = await testApp(t, { PASSWORD_HASHES: '1' }, { passwordHasher: work })
  t.teardown(release)
  /** When the server has closed a connection, by the client's port. */
  const closed = new Map<number | undefined, Promise<unknown>>()
  app.server.on('connection', (socket: Socket) => closed.set(socket.remotePort, once(socket, 'close')))

  const replies: { status: number | undefined; retryAfter: string | undefined; text: string }[] = []
  const answered = new EventEmitter()
  const clients = upTo(130).map((i) => {
    const headers = { 'content-type': 'application/json' }
    const client = {
      isWaiting: true,
      request: request({ port, path: '/tokens', method: 'POST', agent: false, headers }),
    }
    client.request.on('error', () => {})
    client.request.on('response', async (reply) => {
      client.isWaiting = false
      const text = (await reply.setEncoding('utf8').toArray()).join('')
      replies.push({ status: reply.statusCode, retryAfter: reply.headers['retry-after'], text })
      answered.emit(String(replies.length))
    })
    const grant = { grant_type: 'password', email: `a${i}@example.com`, password: `${WRONG} ${i}` }
    client.request.end(JSON.stringify(grant))
    return client
  })
  await once(answered, '29')
  for (const { status, retryAfter, text } of replies) {
    t.strictSame([status, retryAfter], [503, '2'])
    t.match(JSON.parse(text).error.message, 'Too many requests are waiting for password hashing')
  }
  t.equal(verified.length, 1)

  const waiting = upTo(130).filter((i) => clients[i]?.isWaiting && !verified.includes(i))
  t.equal(waiting.length, 100)
  const leaving = waiting.slice(0, 50)
  await Promise.all(
    leaving.map((i) => {
      const socket = clients[i]?.request.socket
      const end = closed.get(socket?.localPort)
      socket?.destroy()
      return end
    }),
  )
  const all = once(answered, String(29 + 51))
  release()
  await all
  t.ok(replies.slice(29).every(({ status }) => status === 401))
  t.equal(verified.length, 51)
  t.notOk(verified.some((i) => leaving.includes(i)))
})

t.test('a failed verification frees its place in the queue', async (t) => {
  const failing: PasswordHasher = { ...argon2, verify: () => Promise.reject(new Error('out of memory')) }
  const passwords = createPasswords({ PASSWORD_HASHES: 1, passwordHasher: failing }).for('ada')
  for (const _ of upTo(3)) await t.rejects(passwords.verify('a hash', WRONG), { message: 'out of memory' })
  t.ok(await passwords.hash(RIGHT))
})

/** A hasher whose work waits until the test releases it, in the order in which it was begun. */
function held() {
  const begun: string[] = []
  const waiting: (() => void)[] = []
  const changes = new EventEmitter()
  const hold = (name: string) => {
    begun.push(name)
    changes.emit('begun')
    return new Promise<void>((resolve) => waiting.push(resolve))
  }
  const work: PasswordHasher = {
    hash: (password) => hold(`hash ${password}`).then(() => `hash of ${password}`),
    verify: (hashed, password) => hold(`verify ${password}`).then(() => hashed === `hash of ${password}`),
  }
  const release = () => waiting.shift()?.()
  return {
    begun,
    work,
    release,
    /** Releases all work until the replies have arrived. */
    async releaseUntil<T>(replies: Promise<T>): Promise<T> {
      const releasing = setInterval(release, 1)
      return replies.finally(() => clearInterval(releasing))
    },
    /** Waits until so many items were begun in all. */
    reached: async (total: number) => {
      while (begun.length < total) await once(changes, 'begun')
    },
  }
}

/** Emits the email address of a sign-in when it has found the user and waits in the queue. */
function watchSignIns(database: Database) {
  const queued = new EventEmitter()
  const watched = createDatabase({
    ...database.$client,
    run: async (text, params, options) => {
      const rows = await database.$client.run(text, params, options)
      if (/"password_hash" from "users" where "users"."email"/.test(text))
        setImmediate(() => queued.emit(String(params?.[0])))
      return rows
    },
  })
  return { queued, watched }
}

t.test('password hashing of one user is serialized', async (t) => {
  const { begun, work, release, releaseUntil, reached } = held()
  const { queued, watched } = watchSignIns(await createSharedDatabase(t))
  const app = await testApp(t, { PASSWORD_HASHES: '1' }, { passwordHasher: work, database: watched })
  const [ada, bob] = ['ada@example.com', 'bob@example.com']
  for (const email of [ada, bob]) await createWithHash(app, email, `hash of ${RIGHT}`)
  const { body } = await releaseUntil(signIn(app, ada, RIGHT))
  const bearer = createClient(app.base, { authorization: `Bearer ${body.data.access_token}` })
  const change = (i: number) =>
    bearer.patch('/users/me', { password: `new password of ${i}`, current_password: `tried by ${i}` })
  const countStatuses = (replies: Reply[]) => {
    const counts: Record<number, number> = {}
    for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1
    return counts
  }

  t.test('a user who changes the password in a loop does not delay the sign-in of another', async (t) => {
    begun.length = 0
    const changes = upTo(10).map((i) => change(i))
    await reached(1)
    const isQueued = once(queued, bob)
    const login = signIn(app, bob, RIGHT)
    await isQueued
    release()
    await reached(2)
    t.match(begun, [/^verify tried by \d$/, `verify ${RIGHT}`], 'before 9 requests that came earlier')
    t.same(countStatuses(await releaseUntil(Promise.all([login, ...changes]))), { 201: 1, 403: 10 })
    t.equal(begun.length, 11)
  })

  t.test('a user has one password hashed at a time, for any PASSWORD_HASHES', async (t) => {
    const several = held()
    const settings = { PASSWORD_HASHES: '3', ALLOW_SIGNUP: 'true' }
    const wide = await testApp(t, settings, { passwordHasher: several.work, database: watched })
    const create = (by: Client, name: string) =>
      upTo(4).map((i) => by.post('/users', person(`${name}${i}@example.com`, { password: RIGHT })))
    const admin = create(wide.admin, 'c')
    await several.reached(1)
    const anonymous = create(wide.anybody, 'd')
    await several.reached(2)
    const isQueued = once(queued, 'unknown@example.com')
    const unknown = upTo(4).map(() => signIn(wide, 'unknown@example.com', WRONG))
    await isQueued
    await several.reached(3)
    t.match(several.begun, [`hash ${RIGHT}`, `hash ${RIGHT}`, `verify ${WRONG}`])
    const replies = await several.releaseUntil(Promise.all([...admin, ...anonymous, ...unknown]))
    t.same(countStatuses(replies), { 201: 8, 401: 4 })
  })

  t.test('10 requests of a user wait, more get 429, and other users are not affected', async (t) => {
    begun.length = 0
    const refusals: Reply[] = []
    const answered = new EventEmitter()
    const changes = upTo(15).map(async (i) => {
      const reply = await change(i)
      if (reply.status === 429) refusals.push(reply)
      answered.emit('reply')
      return reply
    })
    while (refusals.length < 4) await once(answered, 'reply')
    const message = 'Too many requests of this user are waiting for password hashing'
    for (const { headers, body } of refusals) {
      t.equal(headers.get('retry-after'), '1')
      t.match(body.error, { code: 'RATE_LIMIT_EXCEEDED', message })
    }
    t.equal(begun.length, 1)
    const replies = await releaseUntil(Promise.all([signIn(app, bob, RIGHT), ...changes]))
    t.same(countStatuses(replies), { 201: 1, 403: 11, 429: 4 })
    t.equal((await releaseUntil(change(0))).status, 403, 'and afterwards there is room again')
  })
})
