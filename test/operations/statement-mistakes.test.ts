/** A mistake in a statement or in the schema is logged with PostgreSQL's message, and sent to no client. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'

t.test('a missing column is logged with its name, and the response is a 500 without it', async (t) => {
  const lines: string[] = []
  const database = await testDatabase(t)
  await database.run('alter table products rename column description to descriptions')
  const logs = { write: (line: string) => void lines.push(line) }
  const { admin } = await testApp(t, { LOG_LEVEL: 'error' }, { database, logs })

  const reply = await admin.get('/products?status=active&search=canary')
  t.equal(reply.status, 500)
  t.equal(reply.body.error.code, 'INTERNAL_SERVER_ERROR')
  t.equal(reply.body.error.message, 'Something went wrong on our side')
  t.notMatch(reply.text, /description|column|42703/)

  const [line = '{}', ...others] = lines
  t.same(others, [])
  t.match(JSON.parse(line), {
    level: 'error',
    err: {
      type: 'SqlError',
      message: 'PostgreSQL refused a statement: 42703',
      code: '42703',
      cause: {
        code: '42703',
        severity: 'ERROR',
        message: 'column "description" does not exist',
        hint: /^Perhaps you meant to reference the column "products\.descriptions/,
        position: /^\d+$/,
        stack: String,
      },
    },
  })
  t.notMatch(line, /canary|select "/, 'the log has neither values nor SQL')
})

t.test('the message of an error about values is not logged', async (t) => {
  const lines: string[] = []
  const database = await testDatabase(t)
  await database.run(`alter table products add constraint no_canary check (name <> 'canary')`)
  const logs = { write: (line: string) => void lines.push(line) }
  const { admin } = await testApp(t, { LOG_LEVEL: 'error' }, { database, logs })
  const reply = await admin.post('/products', { sku: 'A', name: 'canary', price_amount: 1 })
  t.equal(reply.status, 500)
  t.equal(lines.length, 1)
  t.match(lines[0], '"message":"database statement failed"')
  t.match(lines[0], '"code":"23514"')
  t.notMatch(lines[0], /violates|"canary"/)
})
