/** last_used_at of API keys and sessions is accurate to the minute and changes nothing else of the row. */
import t from 'tap'
import { type Client, createClient, testApp } from '../../../testing/helpers/app.ts'

const { app, base, database, person } = await testApp(t)
const ada = await person('member')
/** Reads what is Ada's without using it. */
const observer = (await person('admin')).bearer

/** What was known of credentials is forgotten, so that a use is seen in the database, as it is seconds later. */
const use = async (by: Client) => {
  app.credentials.keys.clearCache()
  app.credentials.tokens.clearCache()
  const { status } = await by.get('/products?limit=1')
  if (status !== 200) throw new Error(`The credential is not good: ${status}`)
}

const [{ id: keyId = '' } = {}] = await database.run('select id from api_keys where user_id = $1', [ada.id])

for (const { what, path, table, id, by } of [
  { what: 'an API key', path: '/api-keys', table: 'api_keys', id: String(keyId), by: ada.client },
  { what: 'a session', path: '/sessions', table: 'sessions', id: ada.sessionId, by: ada.bearer },
]) {
  const address = `${path}/${id}`
  const stored = async () => {
    const columns = 'last_used_at::text as used, revision, updated_at::text as changed'
    const [row] = await database.run(`select ${columns} from ${table} where id = $1`, [id])
    return { used: String(row?.used), rest: [row?.revision, row?.changed] }
  }
  /** Lets the last use be that long ago. */
  const past = (interval: string) =>
    database.run(`update ${table} set last_used_at = now() - $2::interval where id = $1`, [id, interval])

  t.test(`the use of ${what} is shown in last_used_at, and changes nothing else`, async (t) => {
    await past('1 day')
    const before = { row: await stored(), reply: await observer.get(address) }
    const start = Date.now()
    await use(by)
    const after = { row: await stored(), reply: await observer.get(address) }
    const used = Date.parse(after.reply.body.data.last_used_at)
    t.ok(used >= start - 1 && used <= Date.now(), String(used))
    t.same(after.row.rest, before.row.rest)
    const tag = before.reply.headers.get('etag') ?? ''
    t.match(tag, /^"/)
    for (const name of ['etag', 'last-modified'])
      t.equal(after.reply.headers.get(name), before.reply.headers.get(name), name)
    t.equal((await observer.get(address, { 'if-none-match': tag })).status, 304)
  })

  t.test(`the use of ${what} is written at most once a minute`, async (t) => {
    for (const [interval, isWritten] of [
      ['0 seconds', false],
      ['50 seconds', false],
      ['61 seconds', true],
    ] as const) {
      await past(interval)
      const { used } = await stored()
      await use(by)
      t.equal((await stored()).used !== used, isWritten, interval)
    }
  })
}

t.test('last_used_at of an unused key is null', async (t) => {
  const { bearer } = await person('member')
  const { body } = await bearer.post('/api-keys', { name: 'k', scopes: ['*'] })
  t.equal(body.data.last_used_at, null)
  await use(createClient(base, { 'x-api-key': body.data.key }))
  t.match((await bearer.get(`/api-keys/${body.data.id}`)).body.data.last_used_at, /^\d{4}-/)
})
