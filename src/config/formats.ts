/** The text formats of settings: a name, a description and a check each. */
import { isIP } from 'node:net'
import { isAscii } from '../../lib/email-address.ts'

/** @returns null if the text is not a URL of one of `schemes` */
function parseUrl(text: string, ...schemes: string[]): URL | null {
  const parsed = URL.canParse(text) ? new URL(text) : null
  return parsed && schemes.includes(parsed.protocol) ? parsed : null
}

function isHttpUrl(text: string): boolean {
  return parseUrl(text, 'http:', 'https:') !== null
}

/** A URL to which `/api/...` can be appended, and which contains no credentials. */
function isBaseUrl(text: string): boolean {
  const parsed = parseUrl(text, 'http:', 'https:')
  return parsed !== null && !text.endsWith('/') && !/[?#]/.test(text) && !parsed.username && !parsed.password
}

/** An address, or a name without special characters and an address in angle brackets (RFC 5322, section 3.4). */
function isMailbox(text: string): boolean {
  const address = /^[^<>"@,;:\\\r\n]{1,100} <([^<>]+)>$/.exec(text)?.[1] ?? text
  return formats.email.check(address)
}

/** Exactly as a browser sends it in `Origin`, so that the two can be compared as text. */
function isOrigin(text: string): boolean {
  return text === '*' || parseUrl(text, 'http:', 'https:')?.origin === text
}

/** Schemas of PostgreSQL and of drizzle-kit are not for tables of the service. */
function isSchemaName(text: string): boolean {
  return /^(?!pg_)[a-z][a-z0-9_]{0,62}$/.test(text) && !['information_schema', 'drizzle'].includes(text)
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

/** `true`, a number of hops, or the proxies' addresses; Fastify has names for three address ranges. */
function isTrustedProxies(text: string): boolean {
  if (text === 'true' || /^[1-9][0-9]?$/.test(text)) return true
  const names = ['loopback', 'linklocal', 'uniquelocal']
  return text.split(',').every((part) => names.includes(part.trim()) || isNetwork(part.trim()))
}

interface Format {
  /** For error messages and the table of settings. */
  expects: string
  check: (text: string) => boolean
}

export const formats = {
  'http-url': { expects: 'an http:// or https:// URL', check: isHttpUrl },
  'base-url': {
    expects: 'an absolute http:// or https:// URL without a trailing slash, query or credentials',
    check: isBaseUrl,
  },
  'postgres-url': {
    expects: 'a postgres:// or postgresql:// URL',
    check: (text: string) => parseUrl(text, 'postgres:', 'postgresql:') !== null,
  },
  'schema-name': {
    expects:
      'a lower-case letter and then up to 62 lower-case letters, digits and underscores; not pg_..., information_schema or drizzle',
    check: isSchemaName,
  },
  'redis-url': {
    expects: 'a redis:// or rediss:// URL',
    check: (text: string) => parseUrl(text, 'redis:', 'rediss:') !== null,
  },
  'smtp-url': {
    expects: 'an smtp:// or smtps:// URL',
    check: (text: string) => parseUrl(text, 'smtp:', 'smtps:') !== null,
  },
  mailbox: {
    expects: 'an e-mail address, or a name and an address such as Acme <accounts@example.com>',
    check: isMailbox,
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
