/** Requests that overload protection refuses count in the rate limits of their client. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { type Reply, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'

/** Whether the database makes every request wait too long. */
const state = { isSlow: false }
const opened = await testDatabase(t)
const database = createDatabase({
  ...opened.$client,
  estimateWait: () => (state.isSlow ? Number.POSITIVE_INFINITY : 0),
})
const settings = { RATE_LIMIT: '4', RATE_LIMIT_ANONYMOUS: '2', TRUST_PROXY: '127.0.0.1' }
const { anybody, person } = await testApp(t, settings, { database })

const briefly = ({ status, headers }: Reply) => `${status} ${headers.get('x-ratelimit-remaining')}`

t.test('refused requests count for the user of a cached credential, then they get 429', async (t) => {
  for (const version of ['v1', 'v2']) {
    const { client, bearer } = await person('member')
    const path = `/api/${version}/users/me`
    t.equal(briefly(await client.get(path)), '200 3')
    t.equal(briefly(await bearer.get(path)), '200 2')
    state.isSlow = true
    t.equal(briefly(await client.get(path)), '503 1')
    const overloaded = await bearer.get(path)
    t.equal(briefly(overloaded), '503 0')
    t.equal(overloaded.headers.get('retry-after'), '2')
    const refused = await client.get(path)
    t.equal(briefly(refused), '429 0')
    t.equal(refused.body.error.code, 'RATE_LIMIT_EXCEEDED')
    t.equal(refused.body.error.request_id, refused.headers.get('x-request-id'))
    t.equal(refused.headers.get('x-ratelimit-limit'), '4')
    t.ok(Number(refused.headers.get('retry-after')) >= 1)
    t.equal(refused.headers.get('api-version'), version.slice(1))
    state.isSlow = false
    t.equal(briefly(await client.get(path)), '429 0', 'the same window counts both')
  }
})

t.test('refused requests without a cached credential count for the IP address', async (t) => {
  const ask = async (address: string, headers = {}) =>
    briefly(await anybody.get('/api/v1/products', { 'x-forwarded-for': address, ...headers }))
  state.isSlow = true
  t.equal(await ask('192.0.2.1'), '503 1')
  t.equal(await ask('192.0.2.1', { 'x-api-key': 'unknown' }), '503 0')
  t.equal(await ask('192.0.2.1'), '429 0')
  t.equal(await ask('192.0.2.2'), '503 1')
  state.isSlow = false
  t.equal(await ask('192.0.2.1'), '429 0', 'the anonymous window of the address')
})
