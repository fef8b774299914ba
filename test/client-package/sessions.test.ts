/** The client package signs in, keeps the session, and refreshes its tokens once for parallel calls. */
import t from 'tap'
import { AuthenticationError, createClient, type TokenStore, type Tokens } from '../../client/src/index.ts'
import { type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const PASSWORD = 'nine brass cogs, turning'
const CALLS = 8

async function createUser({ admin }: TestApp) {
  const email = `${createUniqueName('ada')}@example.com`
  await admin.post('/users', { name: 'Ada', email, password: PASSWORD })
  return { email, password: PASSWORD }
}

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

t.test('sessions', async (t) => {
  const database = await createSharedDatabase(t)
  const app = await testApp(t, {}, { database })
  const { base: baseUrl } = app
  const signIn = await createUser(app)
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

  t.test('signOut ends the session and forgets the tokens', async (t) => {
    const { store, client, id } = await createSignedIn()
    const other = createClient({ baseUrl, signIn })
    const before = await other.sessions.list().toArray()
    t.ok(before.every(({ user_id }) => user_id === id))
    await client.signOut()
    t.equal(store.tokens, null)
    t.equal((await other.sessions.list().toArray()).length, before.length - 1)
  })

  t.test('signOut of a session that has ended does not sign in again', async (t) => {
    const { store, client, tokens } = await createSignedIn()
    const other = createClient({ baseUrl, signIn })
    await other.sessions.delete(tokens.sessionId)
    const before = await other.sessions.list().toArray()
    await client.signOut()
    t.equal(store.tokens, null)
    t.equal((await other.sessions.list().toArray()).length, before.length)
  })

  t.test('a wrong password is an AuthenticationError of every call', async (t) => {
    const client = createClient({ baseUrl, signIn: { ...signIn, password: 'a wrong password' }, fetch })
    const errors = await Promise.all([1, 2].map(() => client.users.get('me').catch((error) => error)))
    for (const error of errors) {
      const message = 'Invalid e-mail address or password'
      t.match(error, { name: 'AuthenticationError', status: 401, message })
    }
    t.equal(countTokens(), 1)
  })
})
