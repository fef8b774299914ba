/** Requests `/livez` from the server on this machine, for the HEALTHCHECK of a container. */
import { get as getHttp } from 'node:http'
import { get as getHttps } from 'node:https'
import { readConfig } from '../config/read-config.ts'

const TIMEOUT_MS = 2_000

/** Ends the process: with exit code 0 if the server answers 200. */
export function checkHealth(): void {
  const { HOST, PORT, TLS_KEY } = readConfig()
  const options = { host: HOST, port: PORT, path: '/livez', timeout: TIMEOUT_MS }
  // The certificate is not verified: it names the service's public address, not this machine.
  const request =
    TLS_KEY === undefined ? getHttp(options) : getHttps({ ...options, rejectUnauthorized: false })
  request.on('response', (response) => process.exit(response.statusCode === 200 ? 0 : 1))
  request.on('timeout', () => request.destroy(new Error(`No response within ${TIMEOUT_MS} ms`)))
  request.on('error', (error) => {
    console.error(error.message)
    process.exit(1)
  })
}
