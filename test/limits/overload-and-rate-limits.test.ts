/** Requests that overload protection refuses count in the rate limits of their client. */

import t, { type Test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { createClient, type Reply, testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'

/** An app whose database makes every request wait too long while `isSlow` is set. */
async function createSlowApp(t: Test, settings: Record<string, string>) {
  const opened = await testDatabase(t)
  const state = { isSlow: false }
  const database = createDatabase({
    ...opened.$client,
    estimateWait: () => (state.isSlow ? Number.POSITIVE_INFINITY : 0),
  })
  return { ...(await testApp(t, settings, { database })), state }
}

const briefly = ({ status, headers }: Reply) => `${status} ${headers.get('x-ratelimit-remaining')}`

t.test('refused requests count for the user of a cached credential, then they get 429', async (t) => {
  const { person, state } = await createSlowApp(t, { RATE_LIMIT: '4' })
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
    t.match(Number(refused.headers.get('retry-after')), Number)
    t.ok(Number(refused.headers.get('retry-after')) >= 1)
    t.equal(refused.headers.get('api-version'), version.slice(1))
    state.isSlow = false
    t.equal(briefly(await client.get(path)), '429 0', 'the same window counts both')
  }
})

t.test('refused requests without a cached credential count for the IP address', async (t) => {
  const { base, state } = await createSlowApp(t, { RATE_LIMIT_ANONYMOUS: '2', TRUST_PROXY: '127.0.0.1' })
  state.isSlow = true
  const from = (address: string, headers = {}) =>
    createClient(base, { 'x-forwarded-for': address, ...headers })
  t.equal(briefly(await from('192.0.2.1').get('/api/v1/products')), '503 1')
  t.equal(briefly(await from('192.0.2.1', { 'x-api-key': 'unknown' }).get('/api/v1/products')), '503 0')
  t.equal(briefly(await from('192.0.2.1').get('/api/v1/products')), '429 0')
  t.equal(briefly(await from('192.0.2.2').get('/api/v1/products')), '503 1')
  state.isSlow = false
  t.equal(
    briefly(await from('192.0.2.1').get('/api/v1/products')),
    '429 0',
    'the anonymous window of the address',
  )
})
