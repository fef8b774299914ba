/** The pages under `/account`: forms without scripts, which do what the routes do, and which a GET leaves undone. */
import t from 'tap'
import { identity } from '../../../database/src/identity.ts'
import { createAccounts, NEW_PASSWORD, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createClientFrom } from '../../../testing/helpers/replies.ts'

const shared = await createSharedDatabase(t)
const app = await testApp(t, {}, { database: shared })
const { admin, anybody, database } = app
const accounts = createAccounts(app)

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const open = (name: string, query: Record<string, string> = {}) =>
  anybody.get(`/account/${name}?${new URLSearchParams(query)}`)
const send = (name: string, fields: Record<string, string>, headers: Record<string, string> = {}) => {
  const body = new URLSearchParams(fields).toString()
  return anybody.call('POST', `/account/${name}`, { body, headers: { ...FORM, ...headers } })
}
/** Returns the query with which a link opens a page. */
const toQuery = ({ id, token }: { id: string; token: string }) => ({ id, token })
const takeLink = async (...sent: Parameters<typeof accounts.takeLink>) =>
  toQuery(await accounts.takeLink(...sent))
const request = async (email: string) => toQuery(await accounts.request(email))

const readTitle = ({ text }: { text: string }) => /<h1>(.*)<\/h1>/.exec(text)?.[1]

/** The link to the start page, as Mustache escapes it. */
const CONTINUE = `<a href="..&#x2F;">Continue to ${identity.title}</a>`

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
  await accounts.unverify(id)
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

  const opened = await open('reset', toQuery(link))
  t.strictSame(readHidden(opened), toQuery(link))
  t.match(opened.text, `autocomplete="username" value="${email}" readonly hidden>`, 'for password managers')
  t.match(opened.text, /<input id="password" name="password" type="password" autocomplete="new-password"/)

  const short = await send('reset', { ...readHidden(opened), password: 'short', revoke_api_keys: 'true' })
  t.equal(short.status, 422)
  const problem = 'The password must have at least 12 characters.'
  t.match(short.text, `<p class="problem" id="password-problem">${problem}`)
  t.match(short.text, /aria-describedby="password-hint password-problem" autofocus aria-invalid="true"/)
  t.match(short.text, /name="revoke_api_keys" value="true" checked/)
  t.notMatch(short.text, /value="short"/)
  const own = await send('reset', { ...readHidden(short), password: email })
  t.equal(own.status, 422, 'only the user forbids it')

  const session = await accounts.createSession(email)
  await session.post('/api-keys', { name: 'k', scopes: ['*'] })
  const done = await send('reset', { ...readHidden(short), password: NEW_PASSWORD })
  t.equal(done.status, 200, done.text)
  t.equal(readTitle(done), 'Your password is set')
  t.match(done.text, CONTINUE, 'and where to go')
  t.equal((await accounts.signIn(email, PASSWORD)).status, 401)
  t.equal((await session.get('/users/me')).status, 401)
  t.ok((await accounts.read(id)).email_verified_at)
  t.equal((await send('reset', { ...readHidden(short), password: NEW_PASSWORD })).status, 403, 'once')
  t.equal(readTitle(await open('reset', toQuery(link))), 'This link no longer works', 'before one types')

  const again = await accounts.createSession(email, NEW_PASSWORD)
  await again.post('/api-keys', { name: 'k', scopes: ['*'] })
  const checked = { ...(await request(email)), password: PASSWORD, revoke_api_keys: 'true' }
  t.equal((await send('reset', checked)).status, 200)
  const { body } = await (await accounts.createSession(email)).get('/api-keys')
  t.same(body.data, [], 'a checked box deletes the API keys')
})

t.test(
  'each page says which address and which account it is about, and does what its route does',
  async (t) => {
    const readText = ({ text }: { text: string }) => /<\/h1>\s*<p>(.*?)<\/p>/.exec(text)?.[1] ?? ''
    const [email, next] = [newAddress(), newAddress()]
    const link = await accounts.takeLink(admin.post('/users', { name: 'Ada', email }))
    const account = `For the account of ${email} at ${identity.title}.`
    const invitation = await open('invite', toQuery(link))
    t.same([readTitle(invitation), readText(invitation)], ['Choose your password', account])
    t.match(
      (await send('invite', { ...toQuery(link), password: 'short' })).text,
      account,
      'after a refusal too',
    )
    t.equal((await send('invite', { ...readHidden(invitation), password: PASSWORD })).status, 200)
    t.equal(readText(await open('reset', await request(email))), account)

    await accounts.unverify(link.data.id)
    const session = await accounts.createSession(email)
    const form = await open('verify', await takeLink(session.post('/email-verifications', {})))
    t.equal(readTitle(form), 'Verify your email address')
    t.match(
      readText(form),
      `you receive email at ${email}, the address of your account at ${identity.title}.`,
    )
    t.equal((await accounts.read(link.data.id)).email_verified_at, null, 'not by opening it')
    const verified = await send('verify', readHidden(form))
    t.equal(verified.status, 200, verified.text)
    t.match(verified.text, email)
    t.match(verified.text, CONTINUE)
    const opened = await open('verify', readHidden(form))
    t.match(opened.text, 'your address is verified, and there is nothing left to do')
    t.match(opened.text, CONTINUE)
    t.ok((await accounts.read(link.data.id)).email_verified_at)

    const wanted = { email: next, current_password: PASSWORD }
    const change = await open('verify', await takeLink(session.post('/email-verifications', wanted)))
    t.equal(readTitle(change), 'Confirm your new email address')
    t.match(
      readText(change),
      new RegExp(`Make ${next} the address of the account .* replaces the present address`),
    )
    t.notMatch(change.text, email, 'who receives the mail need not know the former address')
    t.match(change.text, '<button type="submit">Change the address</button>')
    const done = await send('verify', readHidden(change))
    t.equal(readText(done), `${next} is the address of your account at ${identity.title}.`)
  },
)

t.test('the page of an address that another user has says so', async (t) => {
  const [ada, bob] = [await accounts.create(), await accounts.create()]
  const session = await accounts.createSession(ada.email)
  const wanted = { email: bob.email, current_password: PASSWORD }
  const page = await send('verify', await takeLink(session.post('/email-verifications', wanted)))
  t.equal(page.status, 409)
  t.match(page.text, /role="alert">The address [^<]+</)
})

t.test('the folder of the pages redirects to the reset of a password', async (t) => {
  for (const path of ['/account', '/account/', '/account?from=mail']) {
    const { status, headers } = await anybody.get(path)
    t.equal(status, 302)
    const url = new URL(headers.get('location') ?? '', new URL(path, 'https://example.com/prefix/'))
    t.equal(url.pathname, '/account/reset', path)
  }
})

t.test('opening a page changes nothing, whatever the link is', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await request(email)
  const countRows = () => database.run('select id, token_hash from account_links order by id')
  const before = await countRows()
  for (let i = 0; i < 2; i++) {
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
  const { id, token } = await request(email)
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
  const { id, token } = await request(email)
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
    const urls = [...text.matchAll(/(?:href|src|action)="(?!data:)([^"]*)"/g)].map(([, url]) => url)
    t.notOk(urls.some((url) => url?.includes(':')))
  }
  t.equal(form.text.split(token).length, 2, 'the token stands in a hidden field only')

  const evil = '"><script>alert(1)</script>'
  for (const page of [
    await open('reset', { id: evil, token: evil }),
    await send('reset', { email: evil }),
    await send('reset', { id: evil, token: evil, password: 'short' }),
  ])
    t.notMatch(page.text, /<script/, 'values are escaped')
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
  const settings = { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_ANONYMOUS: '2' }
  const limited = await testApp(t, settings, { database: shared })
  const client = createClientFrom(limited.base, '203.0.113.9')
  t.equal((await client.get('/account/reset')).status, 200)
  t.equal((await client.get('/account/invite')).status, 400)
  const refused = await client.get('/account/reset')
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.match(refused.text, /Try again in \d+ seconds/)
  t.equal(
    (await client.call('POST', '/account/reset', { headers: FORM, body: 'email=a%40b.co' })).status,
    429,
  )
})

t.test('there are none without mail, nor with pages of the team', async (t) => {
  const own = await testApp(t, { APP_URL: 'https://app.example.com/account' }, { database: shared })
  t.equal((await own.anybody.get('/account/reset')).status, 404)
  t.notMatch(Object.keys((await anybody.get('/openapi/v1.json')).body.paths).join(), '/account')
})
