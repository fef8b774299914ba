/** API keys that were never issued: they cost few look-ups, and evict no valid key from the cache. */
import t from 'tap'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { formatWindow } from '../../../testing/helpers/replies.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createClock } from '../../../testing/helpers/time.ts'
import { createLookUpCache } from '../../src/auth/cache.ts'
import { makeKey } from '../../src/auth/key-format.ts'

const database = await createSharedDatabase(t)
const LIMIT = 5

let lookUps = 0
const counting = intercept(database, (text) => {
  if (text.includes('"key_hash" = $1')) lookUps += 1
})
const time = createClock()
const settings = { RATE_LIMIT_AUTH_FAILURES: String(LIMIT) }
const { app, base, person } = await testApp(t, settings, { database: counting, now: time.now })
const send = (key = makeKey()) => createClient(base, { 'x-api-key': key }).get('/products')

/** Begins another window of the address. */
const begin = () => {
  time.pass(60_000)
  lookUps = 0
}

const sum = (statuses: { status: number }[], status: number) =>
  statuses.filter((each) => each.status === status).length

t.test('forged keys of an address that is over its limit cost one look-up a second', async (t) => {
  begin()
  const replies = await Promise.all(Array.from({ length: 100 }, () => send()))
  t.equal(sum(replies, 401), LIMIT)
  t.equal(sum(replies, 429), 100 - LIMIT)
  t.equal(lookUps, LIMIT + 1)
  for (let i = 0; i < 100; i++) t.equal(formatWindow(await send()), `429 ${LIMIT} 0`)
  t.equal(lookUps, LIMIT + 1)
  time.pass(1_000)
  await Promise.all(Array.from({ length: 100 }, () => send()))
  t.equal(lookUps, LIMIT + 2)
  time.pass(60_000)
  t.equal((await send()).status, 401)
})

t.test('a forged key that is repeated costs one look-up, and each request counts', async (t) => {
  begin()
  const key = makeKey()
  for (let i = 0; i < LIMIT; i++) t.equal((await send(key)).status, 401)
  t.equal((await send(key)).status, 429)
  t.equal(lookUps, 1)
})

t.test('a valid key passes at an address that is over its limit', async (t) => {
  begin()
  const [known, unknown] = [await person('member'), await person('member')]
  t.equal((await send(known.key)).status, 200)
  for (let i = 0; i < 20; i++) await send()
  t.equal((await send(known.key)).status, 200)
  app.credentials.keys.clearCache()
  t.equal((await send(known.key)).status, 200, 'also when it is looked up again')
  // A forged key has used the look-up of this second.
  t.equal((await send(unknown.key)).status, 429)
  time.pass(1_000)
  t.equal((await send(unknown.key)).status, 200)
  app.credentials.keys.clearCache()
  t.equal((await send(unknown.key)).status, 200)
})

t.test('valid keys that arrive together at one address all pass, and count as no failure', async (t) => {
  begin()
  const people = await Promise.all(Array.from({ length: 30 }, () => person('member')))
  t.equal(sum(await Promise.all(people.map(({ key }) => send(key))), 200), people.length)
  t.equal((await send()).status, 401)
})

t.test('invalid credentials evict no valid one from the cache', async (t) => {
  let count = 0
  const cache = createLookUpCache(async (key) => {
    count += 1
    return key.startsWith('valid') ? { key } : undefined
  })
  const valid = Array.from({ length: 100 }, (_, i) => `valid ${i}`)
  for (const key of valid) await cache.get(key)
  for (let i = 0; i < 20_000; i++) await cache.get(`invalid ${i}`)
  count = 0
  for (const key of valid) t.equal(cache.peek(key)?.key, key)
  t.equal(await cache.get('invalid 19999'), undefined)
  t.equal(count, 0, 'invalid ones are cached too')
})
