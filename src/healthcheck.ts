/** Asks the server on this machine whether it lives, for the container's HEALTHCHECK: exit code 0 says yes. */
import { get as plain } from 'node:http'
import { get as encrypted } from 'node:https'
import { readConfig } from './config.ts'

const { HOST, PORT, TLS_KEY } = readConfig()
const timeout = 2_000
const ask = { host: HOST, port: PORT, path: '/livez', timeout }

// The certificate is not checked: it names the service's address, not this machine's.
const request = TLS_KEY === undefined ? plain(ask) : encrypted({ ...ask, rejectUnauthorized: false })
request.on('response', (reply) => process.exit(reply.statusCode === 200 ? 0 : 1))
request.on('timeout', () => request.destroy(new Error(`no answer within ${timeout} ms`)))
request.on('error', (error) => {
  console.error(error.message)
  process.exit(1)
})
