/** What commands that call a server over HTTP need: its address, and an API key. */
import { Option } from '@commander-js/extra-typings'
import { identity } from '@resource-api/database'
import { formats, readClientKey, readClientPort } from '@resource-api/http/config'
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
  url?: string
  key?: string
}

export const urlOption = new Option(
  '--url <url>',
  'The address of the server (default: http://127.0.0.1, with the port of PORT)',
)

/** Returns the address of the server and the API key. @throws UsageError, ConfigError */
export function readServerOptions({ url, key = readClientKey() }: ServerOptions) {
  const baseUrl = url === undefined ? `http://127.0.0.1:${readClientPort()}` : checkUrl(url)
  if (key === undefined) throw new UsageError(`--key or ${identity.keyVariable} is required`)
  return { baseUrl, apiKey: checkHeader('The API key', key) }
}
