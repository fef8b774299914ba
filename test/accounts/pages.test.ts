/** The pages under `/account`: forms without scripts, which do what the routes do, and which a GET leaves undone. */
import t from 'tap'
import { identity } from '../../lib/identity.ts'
import { createAccounts, NEW_PASSWORD, PASSWORD } from '../helpers/accounts.ts'
import { type CallOptions, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createClientFrom } from '../helpers/replies.ts'

const shared = await createSharedDatabase(t)
const app = await testApp(t, {}, { database: shared })
const { admin, anybody, database } = app
const accounts = createAccounts(app)

const toForm = (fields: Record<string, string>): CallOptions => ({
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams(fields).toString(),
})
const open = (name: string, query: Record<string, string> = {}) =>
  anybody.get(`/account/${name}?${new URLSearchParams(query)}`)
const send = (name: string, fields: Record<string, string>, headers: Record<string, string> = {}) => {
  const { body, headers: type } = toForm(fields)
  return anybody.call('POST', `/account/${name}`, { body, headers: { ...type, ...headers } })
}

const readTitle = ({ text }: { text: string }) => /<h1>(.*)<\/h1>/.exec(text)?.[1]

/** Returns the hidden fields of the form in a page. */
const readHidden = ({ text }: { text: string }) =>
  Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)].map(([, name, value]) => [
      name,
      value,
    ]),
  )

t.test('a forgotten password is reset by two forms', async (t) => {
  const { id, email } = await accounts.create()
  await database.run('update users set email_verified_at = null where id = $1', [id])
  const form = await open('reset')
  t.equal(form.status, 200)
  t.match(form.text, /<label for="email">/)
  t.match(form.text, /<form method="post" action="reset">/)

  const before = accounts.links.length
  const requested = await send('reset', { email: email.toUpperCase() })
  t.equal(requested.status, 200)
  const unknown = await send('reset', { email: 'missing@example.org' })
  t.equal(unknown.text, requested.text, 'the same for every address')
  const link = accounts.links[before]
  if (!link) throw new Error('No mail was enqueued')

  const opened = await open('reset', { id: link.id, token: link.token })
  t.strictSame(readHidden(opened), { id: link.id, token: link.token })
  t.match(opened.text, /<input id="password" name="password" type="password" autocomplete="new-password"/)

  const short = await send('reset', { ...readHidden(opened), password: 'short', revoke_api_keys: 'true' })
  t.equal(short.status, 422)
  t.match(
    short.text,
    /<p class="problem" id="password-problem">The password must NOT have fewer than 12 characters/,
  )
  t.match(short.text, /aria-describedby="password-hint password-problem" aria-invalid="true"/)
  t.match(short.text, /name="revoke_api_keys" value="true" checked/)
  t.notMatch(short.text, /value="short"/)
  t.equal(
    (await send('reset', { ...readHidden(short), password: email })).status,
    422,
    'only the user forbids it',
  )

  const session = await accounts.createSession(email)
  const done = await send('reset', { ...readHidden(short), password: NEW_PASSWORD })
  t.equal(done.status, 200, done.text)
  t.equal(readTitle(done), 'Your password is set')
  t.equal((await accounts.signIn(email, PASSWORD)).status, 401)
  t.equal((await accounts.signIn(email, NEW_PASSWORD)).status, 201)
  t.equal((await session.get('/users/me')).status, 401)
  t.ok((await admin.get(`/users/${id}`)).body.data.email_verified_at)
  t.equal((await send('reset', { ...readHidden(short), password: NEW_PASSWORD })).status, 403, 'once')
})

t.test('a checked box deletes the API keys', async (t) => {
  const { email } = await accounts.create()
  const session = await accounts.createSession(email)
  await session.post('/api-keys', { name: 'k', scopes: ['*'] })
  const { id, token } = await accounts.request(email)
  const done = await send('reset', { id, token, password: NEW_PASSWORD, revoke_api_keys: 'true' })
  t.equal(done.status, 200, done.text)
  const again = await accounts.createSession(email, NEW_PASSWORD)
  t.same((await again.get('/api-keys')).body.data, [])
})

t.test('an invitation is accepted, and an address is verified', async (t) => {
  const email = 'invited.by.page@example.org'
  const { id } = (await admin.post('/users', { name: 'Ada', email })).body.data
  const link = accounts.links.at(-1)
  if (!link) throw new Error('No mail was enqueued')
  const invitation = await open('invite', { id: link.id, token: link.token })
  t.equal(readTitle(invitation), 'Choose your password')
  t.equal((await send('invite', { ...readHidden(invitation), password: NEW_PASSWORD })).status, 200)

  await database.run('update users set email_verified_at = null where id = $1', [id])
  const session = await accounts.createSession(email, NEW_PASSWORD)
  await session.post('/email-verifications', {})
  const sent = accounts.links.at(-1)
  if (!sent) throw new Error('No mail was enqueued')
  const page = await open('verify', { id: sent.id, token: sent.token })
  t.equal((await admin.get(`/users/${id}`)).body.data.email_verified_at, null, 'not by opening it')
  const done = await send('verify', readHidden(page))
  t.equal(done.status, 200, done.text)
  t.match(done.text, email)
  t.ok((await admin.get(`/users/${id}`)).body.data.email_verified_at)
})

t.test('each page says which address and which account it is about', async (t) => {
  const readText = ({ text }: { text: string }) => /<\/h1>\s*<p>(.*?)<\/p>/.exec(text)?.[1] ?? ''
  const takeLink = async (work: () => Promise<unknown>) => {
    await work()
    const link = accounts.links.at(-1)
    if (!link) throw new Error('No mail was enqueued')
    return { id: link.id, token: link.token }
  }
  const { email } = await accounts.create()
  const session = await accounts.createSession(email)
  const reset = await takeLink(() => accounts.request(email))
  const account = `For the account of ${email} at ${identity.title}.`
  t.equal(readText(await open('reset', reset)), account)
  const refused = await send('reset', { ...reset, password: 'short' })
  t.match(refused.text, account, 'after a refusal too')
  const invited = 'invited.to.read@example.org'
  const invitation = await takeLink(() => admin.post('/users', { name: 'Ada', email: invited }))
  t.equal(readText(await open('invite', invitation)), `For the account of ${invited} at ${identity.title}.`)

  const present = await takeLink(() => session.post('/email-verifications', {}))
  const form = await open('verify', present)
  t.equal(readTitle(form), 'Verify your e-mail address')
  t.match(readText(form), `you receive mail at ${email}, the address of your account at ${identity.title}.`)
  const wanted = { email: 'next.of.ada@example.org', current_password: PASSWORD }
  const next = await takeLink(() => session.post('/email-verifications', wanted))
  const change = await open('verify', next)
  t.equal(readTitle(change), 'Confirm your new e-mail address')
  t.match(
    readText(change),
    /Make next\.of\.ada@example\.org the address of the account .* replaces the present address/,
  )
  t.notMatch(change.text, email, 'who receives the mail need not know the former address')
  t.match(change.text, '<button type="submit">Change the address</button>')
  const done = await send('verify', readHidden(change))
  t.equal(readText(done), `${wanted.email} is the address of your account at ${identity.title}.`)
})

t.test('the page of an address that another user has says so', async (t) => {
  const [ada, bob] = [await accounts.create(), await accounts.create()]
  const session = await accounts.createSession(ada.email)
  await session.post('/email-verifications', { email: bob.email, current_password: PASSWORD })
  const link = accounts.links.at(-1)
  if (!link) throw new Error('No mail was enqueued')
  const page = await send('verify', { id: link.id, token: link.token })
  t.equal(page.status, 409)
  t.match(page.text, /role="alert">The address [^<]+</)
})

t.test('opening a page changes nothing, whatever the link is', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await accounts.request(email)
  const countRows = () => database.run('select id, token_hash from account_links order by id')
  const before = await countRows()
  for (let i = 0; i < 7; i++) {
    for (const name of ['reset', 'invite']) {
      t.equal((await open(name, { id, token: 'wrong' })).status, 403)
      t.equal((await open(name, { id, token })).status, 200)
      t.equal((await anybody.call('HEAD', `/account/${name}?id=${id}&token=${token}`)).status, 200)
    }
    t.equal((await open('verify', { id, token })).status, 403)
  }
  t.same(await countRows(), before)
  t.equal((await send('reset', { id, token, password: NEW_PASSWORD })).status, 200)
})

t.test('every link that cannot be used has the same page', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await accounts.request(email)
  const texts = new Set<string>()
  for (const link of [
    { id, token: 'wrong' },
    { id: UNKNOWN_ID, token },
    { id: 'no id', token },
    { id, token: 'x'.repeat(200) },
    { id, token: '' },
    { token },
  ]) {
    for (const name of ['reset', 'invite', 'verify']) {
      const { status, text } = await send(name, { ...link, password: NEW_PASSWORD })
      t.equal(status, 403, `${name} ${JSON.stringify(link)}`)
      texts.add(`${name === 'verify'} ${text}`)
      if (!link.id || !link.token) continue
      const opened = await open(name, link)
      t.equal(opened.status, 403)
      texts.add(`${name === 'verify'} ${opened.text}`)
    }
  }
  t.equal(texts.size, 2, 'a reset offers another one, a verification does not')
  for (const name of ['invite', 'verify']) t.equal((await open(name, { id })).status, 400)
})

t.test('pages have no scripts, are not stored, and give their address to no site', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await accounts.request(email)
  const form = await open('reset', { id, token })
  const pages = [
    form,
    await open('reset'),
    await open('verify'),
    await send('reset', { email: 'x' }),
    await send('reset', { id, token: 'wrong', password: NEW_PASSWORD }),
  ]
  for (const { headers, status, text } of pages) {
    t.equal(headers.get('content-type'), 'text/html; charset=utf-8', String(status))
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(headers.get('referrer-policy'), 'no-referrer')
    t.equal(headers.get('x-frame-options'), 'DENY')
    t.match(
      headers.get('content-security-policy'),
      /^default-src 'none';style-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'$/,
    )
    t.notMatch(text, /<script|\son\w+=|style="/)
    t.same(
      [...text.matchAll(/(?:href|src|action)="(?!data:)([^"]*)"/g)].filter(([, url]) => url?.includes(':')),
      [],
    )
  }
  t.equal(form.text.split(token).length, 2, 'the token stands in a hidden field only')
})

t.test('values are escaped', async (t) => {
  const evil = '"><script>alert(1)</script>'
  for (const page of [
    await open('reset', { id: evil, token: evil }),
    await send('reset', { email: evil }),
    await send('reset', { id: evil, token: evil, password: 'short' }),
  ]) {
    t.notMatch(page.text, /<script/)
  }
})

t.test('forms of other sites, other types, and large ones are refused, as pages', async (t) => {
  const { email } = await accounts.create()
  const before = accounts.links.length
  for (const site of ['cross-site', 'same-site']) {
    const refused = await send('reset', { email }, { 'sec-fetch-site': site })
    t.equal(refused.status, 403)
  }
  const { host, origin } = new URL(app.base)
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: 'https://evil.example', 'sec-fetch-site': 'none' },
    { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' },
    { origin: `https://${host}` },
    { origin: `${origin}.evil.example` },
    { origin: 'null' },
    { origin: 'null', 'sec-fetch-site': 'none' },
    { origin, 'sec-fetch-site': 'cross-site' },
  ]) {
    for (const name of ['reset', 'invite', 'verify']) {
      const refused = await send(name, { email, id: UNKNOWN_ID, token: 'x' }, headers)
      t.equal(refused.status, 403, JSON.stringify(headers))
      t.match(refused.text, 'Forms of other sites are not allowed')
    }
    t.equal((await send('reset', { email }, headers)).status, 403)
  }
  t.equal(accounts.links.length, before)
  t.equal((await send('reset', { email }, { 'sec-fetch-site': 'same-origin' })).status, 200)
  for (const headers of [{ origin }, { origin: 'null', 'sec-fetch-site': 'same-origin' }])
    t.equal((await send('reset', { email }, headers)).status, 200)
  const large = await send('reset', { email: 'a'.repeat(16_384) })
  t.equal(large.status, 413)
  t.match(large.headers.get('content-type'), 'text/html')
  t.equal((await anybody.post('/account/reset', { email })).status, 415)
  t.equal((await anybody.call('POST', '/account/reset')).status, 422)
  t.equal((await anybody.call('DELETE', '/account/reset')).status, 405)
})

t.test('requests count as those without credentials, and are refused with a page', async (t) => {
  const limited = await testApp(
    t,
    { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_ANONYMOUS: '2' },
    { database: shared },
  )
  const client = createClientFrom(limited.base, '203.0.113.9')
  const paths = ['/account/reset', '/account/invite', '/account/reset']
  const replies = []
  for (const path of paths) replies.push(await client.get(path))
  t.same(
    replies.map(({ status }) => status),
    [200, 400, 429],
  )
  const [, , refused] = replies
  t.ok(Number(refused?.headers.get('retry-after')) > 0)
  t.match(refused?.text, /Try again in \d+ seconds/)
  const form = { ...toForm({ email: 'ada@example.com' }), method: 'POST' }
  t.equal((await client.call('POST', '/account/reset', form)).status, 429)
})

t.test('there are none without mail, nor with pages of the team', async (t) => {
  const own = await testApp(t, { APP_URL: 'https://app.example.com/account' }, { database: shared })
  t.equal((await own.anybody.get('/account/reset')).status, 404)
  const paths = Object.keys((await anybody.get('/openapi/v1.json')).body.paths)
  t.notOk(paths.some((path) => path.startsWith('/account')))
})

t.test('the token is not in the log', async (t) => {
  const lines: string[] = []
  const logged = await testApp(
    t,
    { LOG_LEVEL: 'trace' },
    { database: shared, logs: { write: (line) => void lines.push(line) } },
  )
  const token = 'secret-token-of-a-link-secret-token-of-a-link'
  await logged.anybody.get(`/account/reset?id=${UNKNOWN_ID}&token=${token}`)
  const { body, headers } = toForm({ id: UNKNOWN_ID, token, password: NEW_PASSWORD })
  await logged.anybody.call('POST', '/account/reset', { body, headers: headers ?? {} })
  t.match(lines.join(''), '/account/reset')
  t.notMatch(lines.join(''), 'secret-token')
  t.notMatch(lines.join(''), NEW_PASSWORD)
})
