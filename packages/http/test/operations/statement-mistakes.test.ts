/** A mistake in a statement or in the schema is logged with PostgreSQL's message, and sent to no client. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'

t.test('a missing column is logged with its name, and the response is a 500 without it', async (t) => {
  const lines: string[] = []
  const database = await testDatabase(t)
  await database.run('alter table products rename column description to descriptions')
  const logs = { write: (line: string) => void lines.push(line) }
  const { admin } = await testApp(t, { LOG_LEVEL: 'error' }, { database, logs })

  const { status, body, text } = await admin.get('/products?status=active&search=canary')
  t.equal(status, 500)
  t.match(body.error, { code: 'INTERNAL_SERVER_ERROR', message: 'Something went wrong on our side' })
  t.notMatch(text, /description|column|42703/)

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

t.test('a test that does not read the log gets the cause of a 500 printed', async (t) => {
  const database = await testDatabase(t)
  await database.run('alter table products rename column description to descriptions')
  const { admin } = await testApp(t, {}, { database })
  const printed = t.capture(console, 'error')
  t.equal((await admin.get('/products')).status, 500)
  const [text = '', ...others] = printed().map(({ args }) => String(args[0]))
  t.match(text, /^500 in the request \S+: SqlError: PostgreSQL refused a statement: 42703 [\s\S]+\n +at /)
  t.match(text, /\ncaused by .*column "description" does not exist/)
  t.same(others, [])
  t.equal((await admin.get('/products/none')).status, 404)
  t.same(printed(), [], 'errors of clients are not printed')
})
