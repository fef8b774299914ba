/**
 * Splits a connection URI into its parameters as libpq does (`conninfo_uri_parse`; PostgreSQL documentation, section
 * "Connection URIs"). `URL` refuses or changes some of them, for example a host that is a folder.
 */
import { decodePercent, quoteName, UrlError } from '../../lib/service-url.ts'

const PREFIX = /^postgres(?:ql)?:\/\//i
/** The host, which has brackets around an IPv6 address; the port; and the rest with its first character. */
const AUTHORITY = /^(\[[^\]]*\]|[^:/?,[]*)(?::([^/?,]*))?([,/?].*)?$/s
const createFormError = () =>
  new UrlError(
    'it must have the form postgres://user:password@host:port/database?parameter=value' +
      ' (in a user, a password and a value, the characters : / ? # @ % must be percent-encoded)',
  )

/** Returns a parameter of the query. libpq knows `ssl=true`, which other drivers write. */
function readPair(pair: string): [name: string, value: string] {
  const [encodedName = '', encodedValue, ...rest] = pair.split('=')
  const name = decodePercent(encodedName)
  if (encodedValue === undefined || rest.length > 0)
    throw new UrlError('each of its parameters must have the form name=value; within a value, = is %3D')
  const value = decodePercent(encodedValue)
  if (value === '') throw new UrlError(`${quoteName(name)} is empty`)
  return name === 'ssl' && value === 'true' ? ['sslmode', 'require'] : [name, value]
}

/**
 * Returns the parameters by their names in libpq; one that is absent or empty before the query is left out. Those of the
 * query precede those before it.
 * @throws UrlError
 */
export function parseConnectionUri(text: string): Map<string, string> {
  if (!PREFIX.test(text)) throw createFormError()
  const withoutPrefix = text.replace(PREFIX, '')
  // As libpq, up to the first @, if no slash is before it.
  const [whole = '', user = '', password = ''] = /^([^@/:]*)(?::([^@/]*))?@/.exec(withoutPrefix) ?? []
  // libpq takes a query with an @ for a user, which stands in messages.
  if (user.includes('?')) throw createFormError()
  const [, host, port, rest = ''] = AUTHORITY.exec(withoutPrefix.slice(whole.length)) ?? []
  if (host === undefined || host === '[]') throw createFormError()
  if (rest.startsWith(',')) throw new UrlError('it must name one host')
  const queryStart = rest.indexOf('?')
  const path = queryStart < 0 ? rest : rest.slice(0, queryStart)
  const query = queryStart < 0 ? '' : rest.slice(queryStart + 1)

  const before = { user, password, host: host.replace(/^\[|\]$/g, ''), port, dbname: path.slice(1) }
  const parameters = new Map(
    Object.entries(before).flatMap(([name, value]) => (value ? [[name, decodePercent(value)]] : [])),
  )
  const seen = new Set<string>()
  for (const pair of query.replace(/&$/, '').split('&')) {
    if (query === '') break
    const [name, value] = readPair(pair)
    if (seen.has(name)) throw new UrlError(`${quoteName(name)} is repeated`)
    seen.add(name)
    parameters.set(name, value)
  }
  return parameters
}
