/** No credential in any log at any level, in any error, in the list of processes: canaries sent everywhere, then looked for. */
import t from 'tap'
import { createClient, testApp } from './helpers/app.ts'

t.test('canaries stay out of every log line and every reply', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const password = 'canary-password-0123456789'
  const { anybody, admin, base } = await testApp(t, { LOG_LEVEL: 'trace' }, { logs })
  const replies: string[] = []
  const keep = <T extends { text: string }>(reply: T): T => {
    replies.push(reply.text)
    return reply
  }
  keep(await admin.post('/users', { name: 'Canary', email: 'canary@example.com', password }))
  const signIn = (secret: string) =>
    anybody.post('/tokens', { grant_type: 'password', email: 'canary@example.com', password: secret })
  const { body } = await signIn(password)
  const { access_token: access, refresh_token: refresh } = body.data
  const me = createClient(base, { authorization: `Bearer ${access}` })
  keep(await signIn('canary-wrong-password'))
  const renewed = await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: refresh })
  keep(await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: 'canary-refresh-token' }))
  const key = await me.post('/api-keys', { name: 'k', scopes: ['*'] })
  keep(await me.get('/api-keys'))
  keep(await me.get(`/products?search=x&access_token=canary-in-query&key=canary-in-query`))
  keep(await anybody.get('/products', { authorization: 'Bearer canary-bad-token-canary' }))
  keep(await anybody.get('/products', { authorization: 'Basic Y2FuYXJ5LWJhc2lj' }))
  keep(await anybody.get('/products', { 'x-api-key': 'canary-bad-key' }))
  keep(
    await anybody.get('/products', { 'x-api-key': 'canary-both', authorization: 'Bearer canary-both-too' }),
  )
  keep(await anybody.post('/tokens', '{"grant_type":"password","password":"canary-broken-json"'))
  keep(
    await anybody.post('/tokens', { grant_type: 'password', email: 'canary', password: ['canary-in-array'] }),
  )
  keep(
    await me.patch('/users/me', {
      password: 'canary-new-password-1',
      current_password: 'canary-wrong-current',
    }),
  )
  keep(
    await admin.post('/users', {
      name: 'canary-as-the-name-1',
      email: 'x@example.com',
      password: 'canary-as-the-name-1',
    }),
  )
  keep(
    await anybody.call('POST', '/tokens', {
      headers: { cookie: 'session=canary-cookie' },
      body: '"canary-text"',
    }),
  )

  const logged = lines.join('')
  t.ok(lines.length >= 15, `${lines.length} lines were logged`)
  const secrets = [
    password,
    access,
    refresh,
    renewed.body.data.refresh_token,
    renewed.body.data.access_token,
    key.body.data.key,
    'Y2FuYXJ5LWJhc2lj',
    'canary-',
  ]
  for (const secret of secrets) {
    t.notOk(logged.includes(secret), `${String(secret).slice(0, 12)}... is in no line`)
  }
  const told = replies.join('')
  for (const secret of [
    password,
    access,
    refresh,
    'canary-wrong',
    'canary-in',
    'canary-broken',
    'canary-b',
    'canary-new',
  ]) {
    t.notOk(told.includes(secret), `${String(secret).slice(0, 16)}... is in no reply`)
  }
})
