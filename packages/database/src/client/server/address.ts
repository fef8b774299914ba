/** Reads the address of a database, so that nothing in it is ignored and no password reaches the log. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { userInfo } from 'node:os'
import { type ConnectionOptions, checkServerIdentity } from 'node:tls'
import { quoteName, UrlError } from '../../lib/service-url.ts'
import { DEFAULT_SCHEMA, getSearchPath } from '../schema.ts'
import { parseConnectionUri } from './connection-uri.ts'

export interface Address {
  /** A TCP port of a host, or the path of a Unix socket. */
  target: { host: string; port: number } | { path: string }
  database: string
  /** Undefined for the schema `public`, with which connections keep the search path of their role. */
  searchPath: string | undefined
  user: string
  /** If absent, postgres.js takes the one in `PGPASSWORD`. */
  password?: string
  ssl: false | 'prefer' | 'require' | ConnectionOptions
  applicationName?: string
  /** Milliseconds for connecting and authentication. */
  connectTimeout?: number
  /** Command-line options of the server, such as `-c geqo=off`. */
  serverOptions?: string
  /** The address for messages, without user and password. */
  label: string
}

type Parameters = ReadonlyMap<string, string>

const SUPPORTED = new Set([
  ...['host', 'port', 'user', 'password', 'dbname', 'sslmode', 'sslrootcert'],
  ...['application_name', 'connect_timeout', 'options'],
])

/** Parameters with the values that mean what this client does anyway. */
const FIXED = new Map([
  ['channel_binding', ['prefer', 'disable']],
  ['client_encoding', ['UTF8', 'utf8']],
  ['gssencmode', ['prefer', 'disable']],
  ['load_balance_hosts', ['disable']],
  ['sslcompression', ['0']],
  ['sslnegotiation', ['postgres']],
  ['target_session_attrs', ['any']],
])

const HOST_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/
/** Not 0, with which libpq waits without end. */
const MAX_CONNECT_TIMEOUT_S = 3600

/**
 * Reads a connection URI as libpq does. A parameter that this client does not support is an error, and without
 * `sslmode`, TLS is not used. docs/operators/settings.md lists the parameters.
 * @throws UrlError
 */
export function parseAddress(text: string, schema = DEFAULT_SCHEMA): Address {
  const parameters = parseConnectionUri(text)
  checkNames(parameters)
  const { target, host } = getTarget(parameters)
  const user = parameters.get('user') || getSystemUser()
  const database = parameters.get('dbname') || user
  const password = parameters.get('password')
  const applicationName = parameters.get('application_name')
  const connectTimeout = getConnectTimeout(parameters.get('connect_timeout'))
  const serverOptions = parameters.get('options')
  const ssl = getTlsOptions(parameters, host)
  const where = 'path' in target ? target.path : `${target.host}:${target.port}`
  return {
    target,
    database,
    searchPath: getSearchPath(schema),
    user,
    ...(password && { password }),
    // As in libpq, there is no TLS over a Unix socket.
    ssl: 'path' in target ? false : ssl,
    ...(applicationName && { applicationName }),
    ...(connectTimeout !== undefined && { connectTimeout }),
    ...(serverOptions && { serverOptions }),
    label: `${where}/${database}`,
  }
}

function checkNames(parameters: Parameters): void {
  for (const [name, value] of parameters) {
    const values = FIXED.get(name)
    if (SUPPORTED.has(name) || values?.includes(value)) continue
    const only = values && `is only supported with the value ${values.join(' or ')}`
    const reason = only ?? `is not supported: supported are ${[...SUPPORTED].join(', ')}`
    throw new UrlError(`${quoteName(name)} ${reason}`)
  }
}

function getTarget(parameters: Parameters): { target: Address['target']; host: string } {
  const host = parameters.get('host') || 'localhost'
  const portText = parameters.get('port') || '5432'
  if (`${host}${portText}`.includes(',')) throw new UrlError('it must name one host')
  const port = /^[0-9]{1,5}$/.test(portText) ? Number(portText) : 0
  if (port < 1 || port > 65_535) throw new UrlError('its port must be a number from 1 to 65535')
  if (host.startsWith('/')) return { target: { path: `${host}/.s.PGSQL.${port}` }, host }
  if (isIP(host) === 0 && !HOST_NAME.test(host))
    throw new UrlError(
      'its host must be a name, an IP address (IPv6 in brackets) or the folder of a Unix socket;' +
        ' in a user and a password, the characters : / ? # @ % must be percent-encoded',
    )
  return { target: { host, port }, host }
}

/** As in libpq, the user of the operating system. */
function getSystemUser(): string {
  try {
    return userInfo().username
  } catch {
    throw new UrlError('it must name a user, because the user of the operating system has no name')
  }
}

/** @returns milliseconds */
function getConnectTimeout(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_CONNECT_TIMEOUT_S) return seconds * 1000
  throw new UrlError(
    `its parameter "connect_timeout" must be a number of seconds from 1 to ${MAX_CONNECT_TIMEOUT_S}`,
  )
}

/** @throws UrlError if the file cannot be read or contains no certificate */
function readRootCertificates(file: string): Buffer {
  try {
    const certificates = readFileSync(file)
    // Node.js ignores a file without certificates, and every connection would fail.
    void new X509Certificate(certificates)
    return certificates
  } catch {
    throw new UrlError('its parameter "sslrootcert" must name a readable file of certificates (PEM)')
  }
}

function getTlsOptions(parameters: Parameters, host: string): Address['ssl'] {
  const file = parameters.get('sslrootcert')
  const isSystem = file === 'system'
  const sslmode = parameters.get('sslmode') ?? (isSystem ? 'verify-full' : 'disable')
  if (isSystem && sslmode !== 'verify-full')
    throw new UrlError('its parameter "sslrootcert" is "system", which requires sslmode=verify-full')
  if (file !== undefined && ['disable', 'allow', 'prefer'].includes(sslmode))
    throw new UrlError('its parameter "sslrootcert" requires sslmode=verify-full, verify-ca or require')
  const ca = file === undefined || isSystem ? {} : { ca: readRootCertificates(file) }
  const verify = { ...ca, rejectUnauthorized: true }
  const modes = new Map<string, Address['ssl']>([
    ['disable', false],
    ['allow', 'prefer'],
    ['prefer', 'prefer'],
    ['require', 'require'],
    ['verify-ca', { ...verify, checkServerIdentity: () => undefined }],
    // The host is passed explicitly: for an IP address postgres.js passes none on, and Node.js checks "localhost".
    ['verify-full', { ...verify, checkServerIdentity: (_, cert) => checkServerIdentity(host, cert) }],
  ])
  // As in libpq: with a root certificate, `require` also verifies the certificate chain.
  const options = modes.get(sslmode === 'require' && file ? 'verify-ca' : sslmode)
  if (options === undefined)
    throw new UrlError(`its parameter "sslmode" must be one of ${[...modes.keys()].join(', ')}`)
  return options
}
