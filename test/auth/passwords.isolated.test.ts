/**
 * Passwords are hashed off the event loop, with limited concurrency, and a sign-in does not reveal which
 * accounts exist.
 */

import { EventEmitter, once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { hash, parseOptions } from '@node-rs/argon2'
import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Database } from '../../drizzle/client/index.ts'
import { argon2, createPasswords, type PasswordHasher } from '../../plugins/auth/passwords.ts'
import { type Client, createClient, quickHasher, type Reply, type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createDeferred } from '../helpers/time.ts'

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

for (const atOnce of [1, 2, 3]) {
  t.test(`PASSWORD_HASHES=${atOnce}: of 30 concurrent requests ${atOnce} are hashed at a time`, async (t) => {
    const { seen, work } = counted(idleHasher)
    const settings = { PASSWORD_HASHES: String(atOnce), ALLOW_SIGNUP: 'true' }
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
    const replies = await Promise.all([
      ...upTo(5).map((i) => signIn(app, `owner.${i}@example.com`, WRONG)),
      ...upTo(5).map((i) => signIn(app, `nobody.${i}@example.com`, WRONG)),
      ...upTo(10).map((i) => app.anybody.post('/users', person(`new.${i}@example.com`, { password: RIGHT }))),
      ...owners.map((owner) => owner.patch('/users/me', change)),
    ])
    t.strictSame(
      replies.map(({ status }) => status),
      [...upTo(10).map(() => 401), ...upTo(10).map(() => 201), ...upTo(10).map(() => 200)],
    )
    t.equal(seen.verified.length, 20, 'a sign-in is one verification, and so is a change of password')
    t.equal(seen.hashes, 20, 'a sign-up is one hash, and so is a change of password')
    t.equal(seen.most, atOnce)
  })
}

t.test('each app has its own limit, and hashes nothing at its start', async (t) => {
  const [one, other] = [counted(idleHasher), counted(idleHasher)]
  const settings = { PASSWORD_HASHES: '1' }
  const apps = [
    await testApp(t, settings, { passwordHasher: one.work }),
    await testApp(t, settings, { passwordHasher: other.work }),
  ] as const
  t.strictSame([one.seen.most, other.seen.most], [0, 0])
  await Promise.all(apps.flatMap((app) => upTo(5).map(() => signIn(app, 'nobody@example.com', WRONG))))
  t.strictSame([one.seen.most, other.seen.most], [1, 1])
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
    const former = [
      { memoryCost: 4_096, timeCost: 3, parallelism: 1 },
      { memoryCost: 12_288, timeCost: 3, parallelism: 2 },
      { memoryCost: 65_536, timeCost: 1, parallelism: 4, outputLen: 16 },
    ]
    for (const [i, parameters] of former.entries()) {
      const email = `former.${i}@example.com`
      await createWithHash(app, email, await hash(RIGHT, parameters))
      t.equal((await signIn(app, email, RIGHT)).status, 201)
      t.equal((await signIn(app, email, WRONG)).status, 401)
    }
  })

  t.test('every failed sign-in costs one verification and gets the same reply', async (t) => {
    const make = (email: string, members: Record<string, unknown>) =>
      app.admin.post('/users', person(email, members))
    await make('known@example.com', { password: RIGHT })
    await make('bare@example.com', {})
    await make('suspended@example.com', { password: RIGHT, status: 'suspended' })
    await make('inactive@example.com', { password: RIGHT, status: 'inactive' })
    const attempts = [
      ['unknown@example.com', RIGHT],
      ['known@example.com', WRONG],
      ['bare@example.com', RIGHT],
      ['suspended@example.com', RIGHT],
      ['suspended@example.com', WRONG],
      ['inactive@example.com', RIGHT],
    ] as const
    const pickParts = (reply: Reply) => {
      const { request_id: _, ...error } = reply.body.error
      return [reply.status, reply.headers.get('www-authenticate'), error]
    }
    const refusal = [
      401,
      'Bearer realm="resource-api"',
      { code: 'UNAUTHORIZED', message: 'Invalid e-mail address or password' },
    ]
    Object.assign(seen, { hashes: 0, verified: [] })
    for (const [i, [email, password]] of attempts.entries()) {
      t.strictSame(pickParts(await signIn(app, email, password)), refusal, email)
      t.equal(seen.verified.length, i + 1, 'one verification')
    }
    t.equal(seen.hashes, 0)
    const parameters = seen.verified.map((hashed) => parseOptions(hashed))
    const same = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32, saltLen: 16 }
    for (const each of parameters) t.match(each, same, 'with the same parameters')
    t.equal((await signIn(app, 'known@example.com', RIGHT)).status, 201)
  })

  t.test('current_password of a user without a password is always wrong', async (t) => {
    Object.assign(seen, { hashes: 0, verified: [] })
    const { bearer } = await app.person('member')
    const reply = await bearer.patch('/users/me', { password: RIGHT, current_password: WRONG })
    t.equal(reply.status, 403)
    t.strictSame([seen.verified.length, seen.hashes], [1, 0], 'and the new one was not hashed in vain')
  })
})

t.test(
  '100 accounts wait, more get 503 immediately, and a disconnected client is not verified',
  async (t) => {
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
    /** When the server has noticed that a client is gone, by the client's port. */
    const closed = new Map<number | undefined, Promise<unknown>>()
    app.server.on('connection', (socket: Socket) => closed.set(socket.remotePort, once(socket, 'close')))

    const replies: { status: number | undefined; retryAfter: string | undefined; text: string }[] = []
    const answered = new EventEmitter()
    const clients = upTo(130).map((i) => {
      const grant = { grant_type: 'password', email: `a${i}@example.com`, password: `${WRONG} ${i}` }
      const headers = { 'content-type': 'application/json' }
      const client = {
        waits: true,
        request: request({ port, path: '/tokens', method: 'POST', agent: false, headers }),
      }
      client.request.on('error', () => {})
      client.request.on('response', async (reply) => {
        client.waits = false
        const text = (await reply.setEncoding('utf8').toArray()).join('')
        replies.push({ status: reply.statusCode, retryAfter: reply.headers['retry-after'], text })
        answered.emit(String(replies.length))
      })
      client.request.end(JSON.stringify(grant))
      return client
    })
    await once(answered, '29')
    for (const { status, retryAfter, text } of replies) {
      t.strictSame([status, retryAfter], [503, '2'])
      t.match(JSON.parse(text), {
        error: { code: 'SERVICE_UNAVAILABLE', message: 'Too many requests are waiting for password hashing' },
      })
    }
    t.equal(verified.length, 1, 'one is being verified')

    const line = upTo(130).filter((i) => clients[i]?.waits && !verified.includes(i))
    t.equal(line.length, 100)
    const leaving = line.slice(0, 50)
    await Promise.all(
      leaving.map((i) => {
        const socket = clients[i]?.request.socket
        const gone = closed.get(socket?.localPort)
        socket?.destroy()
        return gone
      }),
    )
    const all = once(answered, String(29 + 51))
    release()
    await all
    t.strictSame(
      replies.slice(29).map(({ status }) => status),
      upTo(51).map(() => 401),
    )
    t.equal(verified.length, 51)
    t.strictSame(
      verified.filter((i) => leaving.includes(i)),
      [],
      'none of those who left',
    )
  },
)

t.test('a failed verification frees its place in the queue', async (t) => {
  const failing: PasswordHasher = { ...argon2, verify: () => Promise.reject(new Error('out of memory')) }
  const passwords = createPasswords({ concurrency: 1, hasher: failing }).for('ada')
  for (const _ of upTo(3)) await t.rejects(passwords.verify('a hash', WRONG), { message: 'out of memory' })
  t.ok(await passwords.hash(RIGHT))
})

/** Work that is held until the test releases it, an item after the other, in the order in which it was begun. */
function held() {
  const begun: string[] = []
  const waiting: (() => void)[] = []
  const changes = new EventEmitter()
  const hold = (name: string) => {
    begun.push(name)
    const released = new Promise<void>((resolve) => waiting.push(resolve))
    changes.emit('begun')
    return released
  }
  const work: PasswordHasher = {
    hash: async (password) => {
      await hold(`hash ${password}`)
      return `hash of ${password}`
    },
    verify: async (hashed, password) => {
      await hold(`verify ${password}`)
      return hashed === `hash of ${password}`
    },
  }
  const release = () => waiting.shift()?.()
  return {
    begun,
    work,
    release,
    /** Releases all work until the replies have arrived. */
    async releaseUntil<T>(replies: Promise<T>): Promise<T> {
      const state = { over: false }
      const over = replies.finally(() => {
        state.over = true
      })
      while (!state.over) {
        release()
        await new Promise(setImmediate)
      }
      return over
    },
    /** Waits until so many items were begun in all. */
    reached: async (total: number) => {
      while (begun.length < total) await once(changes, 'begun')
    },
  }
}

/** Emits the e-mail address of a sign-in once it has looked for the user and asked for its turn. */
function watchingSignIns(database: Database) {
  const asked = new EventEmitter()
  const watched = createDatabase({
    ...database.$client,
    run: async (text, params, options) => {
      const rows = await database.$client.run(text, params, options)
      // What follows the query without waiting for anything else has been done by then.
      if (/"password_hash" from "users" where "users"."email"/.test(text))
        setImmediate(() => asked.emit(String(params?.[0])))
      return rows
    },
  })
  return { asked, watched }
}

t.test('password hashing of one user is serialized', async (t) => {
  const { begun, work, release, releaseUntil, reached } = held()
  const { asked, watched } = watchingSignIns(await createSharedDatabase(t))
  const app = await testApp(t, { PASSWORD_HASHES: '1' }, { passwordHasher: work, database: watched })
  const emails = { ada: 'ada@example.com', bob: 'bob@example.com' }
  for (const email of Object.values(emails)) await createWithHash(app, email, `hash of ${RIGHT}`)
  const { body } = await releaseUntil(signIn(app, emails.ada, RIGHT))
  const ada = createClient(app.base, { authorization: `Bearer ${body.data.access_token}` })
  const change = (i: number) =>
    ada.patch('/users/me', { password: `new password of ${i}`, current_password: `tried by ${i}` })

  t.test('a user who changes the password in a loop does not delay the sign-in of another', async (t) => {
    begun.length = 0
    const changes = upTo(10).map((i) => change(i))
    await reached(1)
    const seen = once(asked, emails.bob)
    const login = signIn(app, emails.bob, RIGHT)
    await seen
    release()
    await reached(2)
    t.match(begun, [/^verify tried by \d$/, `verify ${RIGHT}`], 'before 9 requests that came earlier')
    const replies = await releaseUntil(Promise.all([login, ...changes]))
    t.same(
      replies.map(({ status }) => status),
      [201, ...upTo(10).map(() => 403)],
    )
    t.equal(begun.length, 11)
  })

  t.test('a user has one password hashed at a time, for any PASSWORD_HASHES', async (t) => {
    const several = held()
    const wide = await testApp(
      t,
      { PASSWORD_HASHES: '3', ALLOW_SIGNUP: 'true' },
      { passwordHasher: several.work, database: watched },
    )
    const create = (by: Client, name: string) =>
      upTo(4).map((i) => by.post('/users', person(`${name}${i}@example.com`, { password: RIGHT })))
    const admin = create(wide.admin, 'c')
    await several.reached(1)
    const strangers = create(wide.anybody, 'd')
    await several.reached(2)
    const seen = once(asked, 'nobody@example.com')
    const unknown = upTo(4).map(() => signIn(wide, 'nobody@example.com', WRONG))
    await seen
    await several.reached(3)
    t.match(several.begun, [`hash ${RIGHT}`, `hash ${RIGHT}`, `verify ${WRONG}`])
    const replies = await several.releaseUntil(Promise.all([...admin, ...strangers, ...unknown]))
    t.same(
      replies.map(({ status }) => status),
      [...upTo(8).map(() => 201), ...upTo(4).map(() => 401)],
    )
  })

  t.test(
    '10 requests of a user wait, more get 429 immediately, and other users are not affected',
    async (t) => {
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
      for (const reply of refusals) {
        t.equal(reply.headers.get('retry-after'), '1')
        t.match(reply.body.error, {
          code: 'RATE_LIMIT_EXCEEDED',
          message: 'Too many requests of this user are waiting for password hashing',
        })
      }
      t.equal(begun.length, 1)
      const replies = await releaseUntil(Promise.all([signIn(app, emails.bob, RIGHT), ...changes]))
      t.same(
        replies.map(({ status }) => status).sort(),
        [201, ...upTo(11).map(() => 403), ...upTo(4).map(() => 429)].sort(),
      )
      t.equal(begun.length, 12)
      t.equal((await releaseUntil(change(0))).status, 403, 'and afterwards there is room again')
    },
  )
})

t.test('one module hashes passwords, with asynchronous functions only', async (t) => {
  const root = new URL('../../', import.meta.url)
  const files = ['src', 'plugins', 'schemas', 'drizzle', 'lib'].flatMap((room) =>
    readdirSync(new URL(room, root), { recursive: true, encoding: 'utf8' }).map((name) => `${room}/${name}`),
  )
  const sources = files
    .filter((name) => name.endsWith('.ts'))
    .map((name) => [name, readFileSync(new URL(name, root), 'utf8')] as const)
  const using = sources.filter(([, text]) => text.includes('@node-rs/argon2')).map(([name]) => name)
  t.strictSame(using, ['plugins/auth/passwords.ts'])
  const blocking = sources.filter(([, text]) => /\b(hash|hashRaw|verify)Sync\b/.test(text))
  t.strictSame(blocking, [])
})
