/** LOG_SQL logs each statement of a request with its id, duration and rows, without values; off, the database is untouched. */
import t from 'tap'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'

t.test('a statement is a line with the id of its request, its duration and its rows', async (t) => {
  const lines: Json[] = []
  const logs = { write: (line: string) => void lines.push(JSON.parse(line)) }
  const { admin, app } = await testApp(t, { LOG_SQL: 'true', LOG_LEVEL: 'info' }, { logs })
  const email = 'logged-sql@example.com'
  const { headers, status } = await admin.post(
    '/users',
    { name: 'Logged', email, role: 'member' },
    // Kept with its response, and so in a transaction.
    { 'idempotency-key': 'logged' },
  )
  t.equal(status, 201)
  const ofRequest = lines.filter(({ request_id, sql }) => sql && request_id === headers.get('x-request-id'))
  const insert = ofRequest.find(({ sql }) => /insert into "?users"?/i.test(sql))
  t.match(insert, { level: 'info', msg: 'statement', duration_ms: Number, rows: 1, sql: /\$1/ })
  t.ok(
    ofRequest.some(({ sql }) => /idempotency/.test(sql)),
    'those of a transaction too',
  )

  await t.rejects(app.database.run('select 1 / $1::int', [0]))
  const failed = { sql: 'select 1 / $1::int', duration_ms: Number, code: '22012', msg: 'statement failed' }
  t.match(lines.at(-1), failed)
  t.notOk('request_id' in lines.at(-1), 'work in the background has no id')
  t.notMatch(JSON.stringify(lines.filter(({ sql }) => sql)), email)
})

t.test('without it, the database is the one that was opened', async (t) => {
  const database = await testDatabase(t)
  const { app } = await testApp(t, {}, { database })
  t.equal(app.database, database)
  t.equal(app.logStatements, undefined)
})
