/** Requests `/livez` from the server on this machine, for the container's HEALTHCHECK; exits with 0 if it answers 200. */
import './application.ts'
import { get as getHttp } from 'node:http'
import { get as getHttps } from 'node:https'
import { readConfig } from '@resource-api/http/config'

const { HOST, PORT, TLS_KEY } = readConfig()
const TIMEOUT_MS = 2_000
const options = { host: HOST, port: PORT, path: '/livez', timeout: TIMEOUT_MS }

// The certificate is not verified: it names the service's public address, not this machine.
const request = TLS_KEY === undefined ? getHttp(options) : getHttps({ ...options, rejectUnauthorized: false })
request.on('response', (response) => process.exit(response.statusCode === 200 ? 0 : 1))
request.on('timeout', () => request.destroy(new Error(`No response within ${TIMEOUT_MS} ms`)))
request.on('error', (error) => {
  console.error(error.message)
  process.exit(1)
})
