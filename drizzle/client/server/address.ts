/** Parses a `postgres://` address, so that only its known parts reach the server and no password reaches the log. */
import { readFileSync } from 'node:fs'
import { type ConnectionOptions, checkServerIdentity } from 'node:tls'
import { DEFAULT_SCHEMA, getSearchPath } from '../schema.ts'

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
  /** The address for messages, without user and password. */
  label: string
}

/**
 * Reads `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert` (a file) and `host` (the
 * folder of a Unix socket) as libpq knows them. Without `sslmode`, TLS is not used. Other parameters are ignored.
 * @throws Error that never contains the password
 */
export function parseAddress(text: string, schema = DEFAULT_SCHEMA): Address {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^postgres(ql)?:$/.test(url.protocol))
    throw new Error(
      'The address of the database must have the form postgres://user:password@host:port/database' +
        ' (in a password, the characters : / ? # @ % must be percent-encoded)',
    )
  const folder = url.searchParams.get('host')
  const host = decodeURIComponent(url.hostname).replace(/^\[|\]$/g, '') || 'localhost'
  if (host.includes(','))
    throw new Error('The address of the database must name one host; several hosts are not supported')
  const port = Number(url.port || 5432)
  const target = folder?.startsWith('/')
    ? { path: `${folder}/.s.PGSQL.${port}` }
    : { host: folder || host, port }
  const user = decodeURIComponent(url.username) || 'postgres'
  const database = decodeURIComponent(url.pathname.slice(1)) || user
  const where = 'path' in target ? target.path : `${target.host}:${port}`
  return {
    target,
    database,
    searchPath: getSearchPath(schema),
    user,
    ...(url.password && { password: decodeURIComponent(url.password) }),
    ssl: getTlsOptions(url.searchParams, folder || host),
    label: `${where}/${database}`,
  }
}

function getTlsOptions(query: URLSearchParams, host: string): Address['ssl'] {
  const file = query.get('sslrootcert')
  const verify = { ...(file && file !== 'system' && { ca: readFileSync(file) }), rejectUnauthorized: true }
  const modes = new Map<string, Address['ssl']>([
    ['disable', false],
    ['allow', 'prefer'],
    ['prefer', 'prefer'],
    ['require', 'require'],
    ['verify-ca', { ...verify, checkServerIdentity: () => undefined }],
    // The host is passed explicitly: for an IP address postgres.js passes none on, and Node.js checks "localhost".
    ['verify-full', { ...verify, checkServerIdentity: (_, cert) => checkServerIdentity(host, cert) }],
  ])
  const sslmode = query.get('sslmode') ?? 'disable'
  // As in libpq: with a root certificate, `require` also verifies the certificate chain.
  const options = modes.get(sslmode === 'require' && file ? 'verify-ca' : sslmode)
  if (options === undefined)
    throw new Error(
      `The address of the database has an unknown sslmode: ${sslmode} (known are ${[...modes.keys()].join(', ')})`,
    )
  return options
}
