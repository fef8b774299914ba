/** The client package signs in, keeps the session, refreshes its tokens once for parallel calls, and uses mailed links. */
import t from 'tap'
import { createAccounts, NEW_PASSWORD, PASSWORD } from '../../testing/helpers/accounts.ts'
import { testApp } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { createRecordedFetch } from '../../testing/helpers/recorded-fetch.ts'
import { createUniqueName } from '../../testing/helpers/versioned-client.ts'
import {
  AuthenticationError,
  createClient,
  PermissionError,
  type TokenStore,
  type Tokens,
  ValidationError,
} from '../src/index.ts'

const CALLS = 8

/** A store whose tokens the test sees and changes. */
function createStore() {
  const store: TokenStore & { tokens: Tokens | null } = {
    tokens: null,
    get: async () => store.tokens,
    set: async (tokens) => {
      store.tokens = tokens
    },
  }
  return store
}

const app = await testApp(t, {}, { database: await createSharedDatabase(t) })
const { base: baseUrl, database } = app
const accounts = createAccounts(app)
const signIn = { email: `${createUniqueName('ada')}@example.com`, password: PASSWORD }
await app.admin.post('/users', { name: 'Ada', ...signIn })
const recorded = createRecordedFetch()
const { fetch, sent } = recorded
t.beforeEach(() => {
  sent.length = 0
})
const countTokens = () => sent.filter(({ path }) => path === '/tokens').length
const repeat = <T>(call: () => PromiseLike<T>) => Promise.all(Array.from({ length: CALLS }, call))

/** Creates a client that has signed in. `tokens` are those of the sign-in. */
const createSignedIn = async () => {
  const store = createStore()
  const client = createClient({ baseUrl, signIn, tokenStore: store, fetch })
  const { id } = await client.users.get('me')
  const { tokens } = store
  if (tokens === null) throw new Error('There are no tokens')
  return { store, client, tokens, id }
}

t.test('parallel calls sign in once, and later calls use the tokens', async (t) => {
  const store = createStore()
  const client = createClient({ baseUrl, signIn, tokenStore: store, fetch })
  t.equal(sent.length, 0)
  const users = await repeat(() => client.users.get('me'))
  t.same([...new Set(users.map(({ email }) => email))], [signIn.email])
  t.equal(countTokens(), 1)
  await client.users.get('me')
  t.equal(countTokens(), 1)
  t.match(store.tokens, { sessionId: String, userId: users[0]?.id })

  const reopened = createClient({ baseUrl, tokenStore: store, fetch })
  t.equal((await reopened.users.get('me')).email, signIn.email)
  t.equal(countTokens(), 1, 'another client with the same store needs no password')
  await t.rejects(createClient({ baseUrl, tokenStore: createStore() }).users.get('me'), AuthenticationError)
})

t.test('tokens are refreshed once before they expire', async (t) => {
  const { store, client, tokens } = await createSignedIn()
  t.ok(tokens.renewAt > Date.now() + 860_000 && tokens.renewAt < Date.now() + 880_000)
  store.tokens = { ...tokens, renewAt: Date.now() }
  await repeat(() => client.users.get('me'))
  t.equal(countTokens(), 2)
  t.not(store.tokens.accessToken, tokens.accessToken)
  t.equal(store.tokens.sessionId, tokens.sessionId, 'in the same session')
  t.notOk(recorded.summarize().some((text) => text.endsWith('401')))
})

t.test('tokens are refreshed once after 401, and the calls are sent again', async (t) => {
  const { store, client, tokens } = await createSignedIn()
  store.tokens = { ...tokens, accessToken: 'expired' }
  sent.length = 0
  const users = await repeat(() => client.users.get('me'))
  t.equal(users.length, CALLS)
  t.equal(countTokens(), 1)
  const count = (status: number) => sent.filter((request) => request.status === status).length
  t.same([count(401), count(200)], [CALLS, CALLS])
})

t.test('an abort ends one call and not the sign-in that others wait for', async (t) => {
  const client = createClient({ baseUrl, signIn, fetch })
  const controller = new AbortController()
  const aborted = client.users.get('me', {}, { signal: controller.signal }).catch((error) => error)
  const other = client.users.get('me')
  controller.abort(new Error('left the page'))
  t.equal((await aborted).message, 'left the page')
  t.equal((await other).email, signIn.email)
  t.equal(countTokens(), 1)
})

t.test('after the session has ended, a client with a password signs in again', async (t) => {
  const { store, client, tokens } = await createSignedIn()
  await client.sessions.delete(tokens.sessionId)
  t.equal((await client.users.get('me')).email, signIn.email)
  t.not(store.tokens?.sessionId, tokens.sessionId)

  store.tokens = tokens
  const reopened = createClient({ baseUrl, tokenStore: store })
  await t.rejects(reopened.users.get('me'), AuthenticationError, 'one without a password fails')
  t.equal(store.tokens, null)
})

t.test('signOut ends the session and forgets the tokens, and does not sign in again', async (t) => {
  const other = createClient({ baseUrl, signIn })
  const count = async () => (await other.sessions.list().toArray()).length
  for (const hasEnded of [false, true]) {
    const { store, client, tokens, id } = await createSignedIn()
    const before = await other.sessions.list().toArray()
    t.ok(before.every(({ user_id }) => user_id === id))
    if (hasEnded) await other.sessions.delete(tokens.sessionId)
    await client.signOut()
    t.equal(store.tokens, null)
    t.equal(await count(), before.length - 1)
  }
})

t.test('a wrong password is an AuthenticationError of every call', async (t) => {
  const client = createClient({ baseUrl, signIn: { ...signIn, password: 'a wrong password' }, fetch })
  const errors = await Promise.all([1, 2].map(() => client.users.get('me').catch((error) => error)))
  for (const error of errors) {
    const message = 'Invalid email address or password'
    t.match(error, { name: 'AuthenticationError', status: 401, message })
  }
  t.equal(countTokens(), 1)
})

/** Returns the last mailed link. */
const getLink = () => accounts.links.at(-1) ?? { id: '', token: '' }

t.test('a forgotten password is reset, by a client that cannot sign in', async (t) => {
  const { email } = await accounts.create()
  const client = createClient({ baseUrl, signIn: { email, password: 'forgotten' } })
  const reset = await client.passwordResets.create({ email })
  t.equal(reset.status, 'pending')
  const { id, token } = getLink()
  t.equal(id, reset.id)
  await t.rejects(client.passwordResets.complete(id, { token, password: 'short' }), ValidationError)
  const completed = await client.passwordResets.complete(id, { token, password: NEW_PASSWORD })
  t.same(completed, { ...reset, status: 'completed' })
  await t.rejects(client.passwordResets.complete(id, { token, password: NEW_PASSWORD }), PermissionError)
  const own = createClient({ baseUrl, signIn: { email, password: NEW_PASSWORD } })
  t.equal((await own.users.get('me')).email, email)
})

t.test('an address is verified', async (t) => {
  const { id: userId, email } = await accounts.create()
  await database.run('update users set email_verified_at = null where id = $1', [userId])
  const client = createClient({ baseUrl, signIn: { email, password: PASSWORD } })
  const verification = await client.emailVerifications.create({})
  t.match(verification, { email, status: 'pending' })
  const { id, token } = getLink()
  const completed = await createClient({ baseUrl }).emailVerifications.complete(id, { token })
  t.same(completed, { ...verification, status: 'completed' })
  t.ok((await client.users.get('me')).email_verified_at)
})

t.test('a link is used once, although the response is lost', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await accounts.request(email)
  let count = 0
  const client = createClient({
    baseUrl,
    fetch: async (...args) => {
      count++
      await fetch(...args)
      throw new TypeError('fetch failed')
    },
  })
  const lost = client.passwordResets.complete(id, { token, password: NEW_PASSWORD })
  await t.rejects(lost, { name: 'NetworkError' })
  t.equal(count, 1)
  t.equal((await accounts.signIn(email, NEW_PASSWORD)).status, 201)
})
