/**
 * Takes credentials out of a finished log line, however deep they stand. One search tells that there is none;
 * pino's own redaction costs 17 to 35 us a line for names at two or three depths, this one less than 1.
 */

/** Names of headers, members and settings that hold credentials. */
const NAMES = [
  ...[
    'authorization',
    'proxy-authorization',
    'cookie',
    'set-cookie',
    'x-api-key',
    'api_key',
    'key',
    'secret',
  ],
  ...['password', 'current_password', 'password_hash', 'token', 'access_token', 'refresh_token', 'id_token'],
  ...['ADMIN_API_KEY', 'ADMIN_PASSWORD', 'APP_SECRET', 'JWT_PRIVATE_KEY', 'TLS_KEY', 'METRICS_TOKEN'],
  ...['DATABASE_URL', 'DATABASE_REPLICA_URLS', 'REDIS_URL'],
].map((name) => name.toLowerCase())

const SECRET = new Set(NAMES)
/**
 * A credential inside a text: after a scheme's name, or between `//` and `@` of a URL; and what is known by its look
 * wherever it stands, such as in a path: an API key, a refresh token, a JWT.
 */
const IN_TEXT = /\b(Bearer|Basic)\s+[\w.~+/=-]{8,}|(:\/\/)[^\s/@"]+@|(?:rak_|rrt_|eyJ)[\w-]{16,}[\w.-]*/gi
const SUSPECT = new RegExp(`"(?:${NAMES.join('|')})":|${IN_TEXT.source}`, 'i')
const CENSORED = '[redacted]'

/** A text without the credentials in it that are known by their look or by what stands before them. */
export function censorText(text: string): string {
  return text.replace(IN_TEXT, (_all, scheme: string | undefined, ofUrl: string | undefined) => {
    if (scheme !== undefined) return `${scheme} ${CENSORED}`
    return ofUrl === undefined ? CENSORED : `${ofUrl}${CENSORED}@`
  })
}

function censor(name: string, value: unknown): unknown {
  if (SECRET.has(name.toLowerCase()) && value !== null && value !== undefined) return CENSORED
  return typeof value === 'string' ? censorText(value) : value
}

/** The line, without the values of credentials. */
export function redact(line: string): string {
  if (!SUSPECT.test(line)) return line
  return `${JSON.stringify(JSON.parse(line, censor))}\n`
}
