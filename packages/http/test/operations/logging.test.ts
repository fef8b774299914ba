/** Logs identify each request and contain no credential, value or SQL. */
import type { TSchema } from '@sinclair/typebox'
import { type FastifyInstance, fastify } from 'fastify'
import { test } from 'tap'
import { productSettings } from '../../src/config/settings.ts'
import { createLoggingOptions } from '../../src/observability/logging/index.ts'
import { createRedact } from '../../src/observability/logging/redact.ts'

/** An app with a few routes that misbehave, and the lines that it wrote. */
async function loggedApp(): Promise<{ app: FastifyInstance; lines: string[] }> {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const app = fastify(
    await createLoggingOptions({
      ...{ LOG_LEVEL: 'trace', NODE_ENV: 'test', WORKERS: 1 },
      ownSecrets: ['SMTP_TEXT'],
      logs,
    }),
  )
  app.get('/users/:id', async () => ({}))
  app.get('/livez', async () => ({}))
  app.get('/sql', async () => {
    const driver = Object.assign(new Error('invalid input syntax: "ada@example.com"'), {
      severity: 'ERROR',
      code: '22P02',
      detail: 'Key (email)=(ada@example.com)',
      table_name: 'users',
      query: 'select secret_column',
      parameters: ['ada@example.com'],
    })
    throw new Error('Failed query: select secret_column params: ada@example.com', { cause: driver })
  })
  return { app, lines }
}

test('a request is one line with user, method, route, status and duration', async (t) => {
  const { app, lines } = await loggedApp()
  await app.inject({ url: '/users/7', headers: { 'x-request-id': 'mine-1234' } })
  const line: unknown = JSON.parse(lines.find((one) => one.includes('request answered')) ?? '{}')
  t.match(line, {
    level: 'info',
    request_id: 'mine-1234',
    req: { method: 'GET', path: '/users/7', route: '/users/:id', remote_address: '127.0.0.1' },
    res: { status: 200 },
    duration_ms: Number,
  })
})

test('the names of query parameters are logged, not their values', async (t) => {
  const { app, lines } = await loggedApp()
  await app.inject('/users/7?search=hunter2&fields=a&fields=b&%7Bhunter2=1&=hunter2')
  await app.inject('/nowhere?search=hunter2')
  t.match(lines.join(''), /"parameters":\["search","fields","\?"\]/)
  t.notMatch(lines.join(''), /hunter2/)
})

test('health checks are not logged', async (t) => {
  const { app, lines } = await loggedApp()
  await app.inject('/livez')
  t.notMatch(lines.join(''), /"level":"info"/)
})

test('an error of the database is logged with code and table, without SQL and values', async (t) => {
  const { app, lines } = await loggedApp()
  await app.inject('/sql')
  app.log.error(
    new Error('Failed', { cause: Object.assign(new Error('ada@example.com'), { query: 'select' }) }),
  )
  const all = lines.join('')
  t.notMatch(all, /ada@example|secret_column|Failed query/)
  t.match(all, /"code":"22P02","severity":"ERROR","table_name":"users"/)
  t.match(all, /logging\.test\.ts/, 'the place stays')
})

test('other errors keep their message, alone or aggregated', async (t) => {
  const { app, lines } = await loggedApp()
  app.log.error(new Error('the disk is full'))
  app.log.error({ err: new AggregateError([new Error('one')], 'several') })
  app.log.error({ err: new TypeError('odd') }, 'in our words')
  t.match(lines, [/"msg":"the disk is full"/, /"msg":"several"/, /"msg":"in our words"/])
  t.match(lines[1], /"errors":\[\{"type":"Error","message":"one"/)
  t.match(lines[2], /"type":"TypeError","message":"odd"/)
})

/** Names of header and body fields that hold a credential. */
const CREDENTIAL_FIELDS = [
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-api-key'],
  ...['api_key', 'key', 'secret', 'password', 'current_password', 'password_hash'],
  ...['token', 'access_token', 'refresh_token', 'id_token'],
]
const SECRET_SETTINGS = Object.entries<TSchema>(productSettings).flatMap(([name, { secret }]) =>
  secret === true ? [name] : [],
)

test('credentials are redacted in every position', async (t) => {
  const { app, lines } = await loggedApp()
  t.ok(SECRET_SETTINGS.includes('APP_SECRET'))
  // The names of an application's own settings are compared as they are declared.
  app.log.info({ SMTP_TEXT: 'hunter2', deep: [{ SMTP_TEXT: ['hunter2'] }] })
  for (const name of [...CREDENTIAL_FIELDS, ...SECRET_SETTINGS]) {
    app.log.info({ [name]: 'hunter2' }, name)
    app.log.info({ deep: { er: [{ [name.toLowerCase()]: ['hunter2'] }] } }, name)
    app.log.info({ deep: { er: [{ [name.toUpperCase()]: ['hunter2'] }] } }, name)
    t.notMatch(lines.splice(0).join(''), /hunter2/, name)
  }
  const secret = `whsec_${'aB+/'.repeat(10)}hunter2=`
  app.log.info({ note: `the secret is ${secret}` }, `signed with ${secret}`)
  t.match(JSON.parse(lines.at(-1) ?? ''), { note: 'the secret is [redacted]', msg: 'signed with [redacted]' })
  app.log.info('sent Bearer hunter2hunter2 to postgres://user:hunter2@host/db')
  t.notMatch(lines.join(''), /hunter2/)
  t.match(lines.at(-1), /sent Bearer \[redacted\] to postgres:\/\/\[redacted\]@host\/db/)
  const line = '{"level":"info","parameters":["password","token"],"msg":"a key to nothing"}\n'
  t.equal(createRedact([])(line), line, 'a line without credentials is unchanged')
})
