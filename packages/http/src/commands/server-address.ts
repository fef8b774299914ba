/** What commands that call a server over HTTP need: its address, and an API key. */
import { identity } from '@resource-api/database'
import { formats } from '../config/formats.ts'
import { readClientKey } from '../config/read-config.ts'
import { UsageError } from './usage-error.ts'

/** Returns a text that is sent as a header. @throws UsageError */
export function checkHeader(name: string, text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new UsageError(`${name} must consist of visible ASCII characters`)
}

/** Returns the address of the server. @throws UsageError */
function checkUrl(address: string): string {
  const { check, expects } = formats['server-url']
  if (check(address)) return address.replace(/\/$/, '')
  // The address may have a password, which the message does not repeat.
  throw new UsageError(`--url must be ${expects}`)
}

export interface ServerOptions {
  url: string
  key?: string
}

/** Returns the address of the server and the API key. @throws UsageError */
export function readServerOptions({ url, key = readClientKey() }: ServerOptions) {
  const baseUrl = checkUrl(url)
  if (key === undefined) throw new UsageError(`--key or ${identity.keyVariable} is required`)
  return { baseUrl, apiKey: checkHeader('The API key', key) }
}
