/** Where mails are delivered, users change their own address only by a verification: no answer says which addresses are known. */
import t from 'tap'
import { connectAgent, MCP } from '../../../docs/test/mcp/agent.ts'
import { createAccounts, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'

const MAIL = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'accounts@example.com' }

const database = await createSharedDatabase(t)
const api = await testApp(t, { ...MAIL, ...MCP }, { database })
const { admin } = api
const { create: createUser, read, signIn } = createAccounts(api)

async function create(role = 'member') {
  const { id, email } = await createUser({ role })
  const authorization = `Bearer ${(await signIn(email)).body.data.access_token}`
  return { id, email, authorization, own: createClient(api.base, { authorization }) }
}

const ada = await create()
const known = (await create()).email
const unknown = newAddress()
const withPassword = (fields: Json) => ({ ...fields, current_password: PASSWORD })

t.test('the own address is read-only, whether another user has the new one or not', async (t) => {
  const { id, own } = ada
  const inBatch = 'operations.0.body.email'
  const sendBatch = (method: string, body: Json) =>
    own.post('/batches', { operations: [{ method, path: '/users/me', body: withPassword(body) }] })
  const typed = (email: string) => ({ data: { type: 'users', attributes: withPassword({ email }) } })
  const writes: [name: string, field: string, write: (email: string) => ReturnType<typeof own.patch>][] = [
    ['PATCH', 'email', (email) => own.patch('/users/me', withPassword({ email }))],
    ['PATCH without the password', 'email', (email) => own.patch('/users/me', { email })],
    ['PATCH by id', 'email', (email) => own.patch(`/users/${id.toUpperCase()}`, withPassword({ email }))],
    ['PATCH in v2', 'data.attributes.email', (email) => own.patch('/v2/users/me', typed(email))],
    ['PUT', 'email', (email) => own.put('/users/me', withPassword({ name: 'Ada', email }))],
    ['PATCH in a batch', inBatch, (email) => sendBatch('PATCH', { email })],
    ['PUT in a batch', inBatch, (email) => sendBatch('PUT', { name: 'Ada', email })],
  ]
  for (const [name, field, write] of writes) {
    const replies = [await write(known), await write(unknown)]
    for (const reply of replies) {
      t.equal(reply.status, 422, `${name}: ${reply.text}`)
      t.same(getViolations(reply), [`${field} READ_ONLY`], name)
    }
    const [first, second] = replies.map(({ body }) => ({ ...body.error, request_id: '' }))
    t.same(first, second, name)
  }
  t.match(await read(id), { email: ada.email, email_verified_at: /Z$/ })
})

t.test('what was read can be put back', async (t) => {
  const { own, id } = ada
  const { body } = await own.get('/users/me')
  t.equal((await own.put('/users/me', body.data)).status, 200)
  const renamed = await own.put('/users/me', { name: 'Countess', email: ada.email.toUpperCase() })
  t.match(renamed.body.data, { name: 'Countess', email: ada.email })
  t.equal((await own.patch('/users/me', { email: ada.email })).status, 422, 'PATCH may not repeat it')
  t.equal((await own.patch('/users/me', { name: 'Ada' })).status, 200)
  t.match((await read(id)).email_verified_at, /Z$/)
})

t.test('agents may not either', async (t) => {
  const agent = await connectAgent(t, api, { authorization: ada.authorization })
  for (const email of [known, unknown]) {
    const fields = withPassword({ id: ada.id, email })
    for (const [tool, sent] of [
      ['users_update', fields],
      ['users_replace', { ...fields, name: 'Ada' }],
    ] as const) {
      const { isError, body } = await agent.callTool(tool, sent)
      t.ok(isError)
      t.equal(body.error.details?.[0]?.code, 'READ_ONLY', JSON.stringify(body))
    }
  }
})

t.test('an admin enters the addresses of others, and not their own', async (t) => {
  const user = await create()
  const next = newAddress()
  t.equal((await admin.patch(`/users/${user.id}`, { email: next })).status, 200)
  t.match(await read(user.id), { email: next, email_verified_at: /Z$/ })
  t.equal((await admin.patch(`/users/${user.id}`, { email: known })).status, 409)
  const other = await create('admin')
  const refused = await other.own.patch('/users/me', withPassword({ email: newAddress() }))
  t.same(getViolations(refused), ['email READ_ONLY'])
  const rows = { headers: { 'content-type': 'application/x-ndjson' } }
  const body = `${JSON.stringify({ name: 'Grace', email: user.email })}\n`
  t.equal((await other.own.call('POST', '/users?on_conflict=email', { ...rows, body })).status, 200)
})

t.test('the verification is the way', async (t) => {
  const user = await create()
  for (const email of [known, unknown]) {
    const reply = await user.own.post('/email-verifications', withPassword({ email }))
    t.equal(reply.status, 201)
    t.match(reply.body.data, { email, status: 'pending' })
  }
})

t.test('without MAIL_URL, a change of the own address clears email_verified_at', async (t) => {
  const files = await testApp(t, {}, { database })
  const user = await create()
  const own = createClient(files.base, { authorization: user.authorization })
  const email = newAddress()
  const reply = await own.patch('/users/me', withPassword({ email }))
  t.match(reply.body.data, { email, email_verified_at: null })
  const operations = [
    { method: 'PUT', path: '/users/me', body: withPassword({ name: 'Ada', email: unknown }) },
  ]
  t.equal((await own.post('/batches', { operations })).status, 200)
  t.match(await read(user.id), { email: unknown, email_verified_at: null })
})
