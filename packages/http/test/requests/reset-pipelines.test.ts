/** Pipelined requests whose client resets the connection are counted and logged with the client's address. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { makeKey } from '../../../accounts/src/auth/key-format.ts'
import { recordMessages, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testFolder } from '../../../testing/helpers/database.ts'
import { createCertificate } from '../../../testing/helpers/network.ts'

/** Together they fit into one TLS record, so that the server reads them in one piece. */
const REQUESTS = 100
const KEY = makeKey()

const database = await createSharedDatabase(t)

interface Line {
  level: string
  msg: string
  req?: { remote_address?: string }
}

/** Sends requests with a key that does not exist, as a pipeline that is reset, and returns what was logged. */
async function resetPipeline(t: Test, settings: Record<string, string>, open: (port: number) => Socket) {
  const lines: Line[] = []
  const logs = { write: (line: string) => lines.push(JSON.parse(line)) }
  const limit = { RATE_LIMIT_AUTH_FAILURES: String(REQUESTS) }
  const app = await testApp(t, { LOG_LEVEL: 'info', ...limit, ...settings }, { database, logs })
  const refused = recordMessages(t, 'resource-api:auth:refused')

  // What the server has not read when the reset arrives is lost: the first request shows that it was read.
  app.app.server.once('request', () => socket.resetAndDestroy())
  const socket = open(app.port)
  socket.write(`GET /products HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${KEY}\r\n\r\n`.repeat(REQUESTS))
  await once(socket, 'close')
  const failed = () => lines.filter(({ msg }) => msg === 'request failed').length
  while (refused.length + failed() < REQUESTS) await new Promise((resolve) => setImmediate(resolve))
  return { app, lines }
}

const errorsOf = (lines: readonly Line[]) => lines.filter(({ level }) => !['info', 'debug'].includes(level))

t.test('a reset pipeline logs no error and counts for the IP address of its client', async (t) => {
  const { app, lines } = await resetPipeline(t, {}, (port) => connect(port, '127.0.0.1'))
  const refused = await app.anybody.get('/products', { 'x-api-key': KEY })
  t.equal(refused.status, 429, 'all were counted')
  t.same(errorsOf(lines), [])
  const answered = lines.filter(({ msg }) => msg === 'request answered')
  t.ok(answered.length > 0 && answered.length <= REQUESTS + 1, `${answered.length} lines`)
  for (const { req } of answered) t.equal(req?.remote_address, '127.0.0.1')
})

t.test('a reset pipeline over TLS logs no error', async (t) => {
  const { lines } = await resetPipeline(t, createCertificate(testFolder(t)), (port) => {
    const plain = connect(port, '127.0.0.1')
    const secure = connectTls({ socket: plain, rejectUnauthorized: false })
    return Object.assign(secure, { resetAndDestroy: () => plain.resetAndDestroy() })
  })
  t.same(errorsOf(lines), [])
})
