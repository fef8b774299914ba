/** A `postgres://` address taken apart, so that nothing in it reaches the server or the log unseen. */
import { readFileSync } from 'node:fs'
import { type ConnectionOptions, checkServerIdentity } from 'node:tls'

export interface Address {
  /** Where the socket goes: a port of a host, or a path. */
  target: { host: string; port: number } | { path: string }
  database: string
  user: string
  /** Absent: whatever postgres.js finds in `PGPASSWORD`, or none. */
  password?: string
  ssl: false | 'prefer' | 'require' | ConnectionOptions
  /** For messages: where, without user and password. */
  label: string
}

/**
 * Reads `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert` (a file) and `host` (the
 * folder of a Unix socket) as libpq knows them; without `sslmode`, no TLS. Other parameters are not for us.
 * @throws Error that names what is wrong but never the password
 */
export function parseAddress(text: string): Address {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^postgres(ql)?:$/.test(url.protocol))
    throw new Error(
      'The address of the database is not of the form postgres://user:password@host:port/database' +
        ' (a password with : / ? # @ or % needs them percent-encoded)',
    )
  const folder = url.searchParams.get('host')
  const host = decodeURIComponent(url.hostname).replace(/^\[|\]$/g, '') || 'localhost'
  if (host.includes(','))
    throw new Error('The address of the database names several hosts; only one is supported')
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
    user,
    ...(url.password && { password: decodeURIComponent(url.password) }),
    ssl: tlsOf(url.searchParams, folder || host),
    label: `${where}/${database}`,
  }
}

function tlsOf(query: URLSearchParams, host: string): Address['ssl'] {
  const file = query.get('sslrootcert')
  const ca = file && file !== 'system' ? { ca: readFileSync(file) } : {}
  // As libpq has it: with a root certificate at hand, `require` also looks at the chain.
  const asked = query.get('sslmode') ?? 'disable'
  const mode = asked === 'require' && file ? 'verify-ca' : asked
  switch (mode) {
    case 'disable':
      return false
    case 'allow':
    case 'prefer':
      return 'prefer'
    case 'require':
      return 'require'
    case 'verify-ca':
      return { ...ca, rejectUnauthorized: true, checkServerIdentity: () => undefined }
    case 'verify-full':
      // The name said outright: of an address by number postgres.js passes none on, and Node takes "localhost".
      return {
        ...ca,
        rejectUnauthorized: true,
        checkServerIdentity: (_, cert) => checkServerIdentity(host, cert),
      }
    default:
      throw new Error(`The address of the database has an unknown sslmode: ${mode}`)
  }
}
