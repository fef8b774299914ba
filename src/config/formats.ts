/** What a setting's text may look like, where a number's bounds do not say it: one name, one check each. */
import { isIP } from 'node:net'
import { isAscii } from '../../lib/email-address.ts'

/** The text as a URL of one of `schemes`; null for all else. */
function url(text: string, ...schemes: string[]): URL | null {
  const parsed = URL.canParse(text) ? new URL(text) : null
  return parsed && schemes.includes(parsed.protocol) ? parsed : null
}

function isHttpUrl(text: string): boolean {
  return url(text, 'http:', 'https:') !== null
}

/** A base to which `/api/...` can be appended, and which may be shown to anybody. */
function isBaseUrl(text: string): boolean {
  const parsed = url(text, 'http:', 'https:')
  return parsed !== null && !text.endsWith('/') && !/[?#]/.test(text) && !parsed.username && !parsed.password
}

/** Exactly what a browser writes into `Origin`, so that it can be compared as text. */
function isOrigin(text: string): boolean {
  return text === '*' || url(text, 'http:', 'https:')?.origin === text
}

function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*$/.test(text)
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = isIP(address) === 6 ? 128 : 32
  if (isIP(address) === 0 || rest.length > 0) return false
  return prefix === undefined || (/^[1-9][0-9]{0,2}$/.test(prefix) && Number(prefix) <= bits)
}

/** `true`, a number of hops, or the proxies' addresses. Fastify knows three groups of them by name. */
function isTrustedProxies(text: string): boolean {
  if (text === 'true' || /^[1-9][0-9]?$/.test(text)) return true
  const names = ['loopback', 'linklocal', 'uniquelocal']
  return text.split(',').every((part) => names.includes(part.trim()) || isNetwork(part.trim()))
}

interface Format {
  /** How a message and the table of settings put it. */
  expects: string
  check: (text: string) => boolean
}

export const formats = {
  'http-url': { expects: 'an http:// or https:// URL', check: isHttpUrl },
  'base-url': {
    expects: 'an absolute http:// or https:// URL without trailing slash, query and user',
    check: isBaseUrl,
  },
  'postgres-url': {
    expects: 'a postgres:// or postgresql:// URL',
    check: (text: string) => url(text, 'postgres:', 'postgresql:') !== null,
  },
  'redis-url': {
    expects: 'a redis:// or rediss:// URL',
    check: (text: string) => url(text, 'redis:', 'rediss:') !== null,
  },
  origin: { expects: 'an origin such as https://app.example.com, or *', check: isOrigin },
  host: { expects: 'an IP address or a host name', check: isHost },
  'trusted-proxies': {
    expects: 'true, a number of hops (1-99), or comma-separated addresses and networks (10.0.0.0/8)',
    check: isTrustedProxies,
  },
  email: {
    expects: 'an e-mail address in ASCII',
    check: (text: string) =>
      isAscii(text) && /^[^\s@"(),:;<>[\\\]]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$/.test(text),
  },
  header: {
    expects: 'visible ASCII characters without spaces',
    check: (text: string) => /^[\x21-\x7e]+$/.test(text),
  },
} satisfies Record<string, Format>

export type FormatName = keyof typeof formats

export function isFormatName(name: string | undefined): name is FormatName {
  return name !== undefined && Object.hasOwn(formats, name)
}
