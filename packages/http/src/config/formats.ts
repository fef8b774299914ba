/** The text formats of settings: a name, a description and a check each. */
import { isIP } from 'node:net'
import { parseAddress } from '@resource-api/database/client'
import { isAscii, parseUrl, UrlError } from '@resource-api/database/values'
import { parseMailbox } from '../lib/mailbox.ts'
import { parseRedisUrl } from '../rate-limit/redis-url.ts'
import { parseSmtpUrl } from './smtp-url.ts'

const isHttpUrl = (text: string): boolean => parseUrl(text, ['http', 'https']) !== undefined

function hasNoCredentials(text: string): boolean {
  const parsed = parseUrl(text, ['http', 'https'])
  return parsed !== undefined && !parsed.username && !parsed.password
}

/** A URL to which a path can be appended. */
const isPlainUrl = (text: string): boolean => hasNoCredentials(text) && !/[?#]/.test(text)

/** Returns what is wrong with a URL that `parse` refuses. */
const explainBy =
  (parse: (text: string) => unknown) =>
  (text: string): string | undefined => {
    try {
      parse(text)
      return undefined
    } catch (error) {
      if (error instanceof UrlError) return error.reason
      throw error
    }
  }

const explainPostgresUrl = explainBy((text) => parseAddress(text))
const explainRedisUrl = explainBy(parseRedisUrl)
const explainSmtpUrl = explainBy(parseSmtpUrl)

function isMailbox(text: string): boolean {
  const mailbox = parseMailbox(text)
  return mailbox !== undefined && formats.email.check(mailbox.address)
}

/** Exactly as a browser sends it in `Origin`, so that the two can be compared as text. */
function isOrigin(text: string): boolean {
  return text === '*' || parseUrl(text, ['http', 'https'])?.origin === text
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
  /** Returns what is wrong with a text that fails the check, as the end of a sentence without secrets. */
  explain?: (text: string) => string | undefined
}

export const formats = {
  'http-url': { expects: 'an http:// or https:// URL', check: isHttpUrl },
  'public-url': {
    expects: 'an http:// or https:// URL without credentials',
    check: hasNoCredentials,
  },
  'server-url': {
    expects: 'an http:// or https:// URL without a query, fragment or credentials',
    check: isPlainUrl,
  },
  'base-url': {
    expects: 'an absolute http:// or https:// URL without a trailing slash, query or credentials',
    check: (text: string) => isPlainUrl(text) && !text.endsWith('/'),
  },
  'postgres-url': {
    expects: 'a postgres:// or postgresql:// URL',
    check: (text: string) => explainPostgresUrl(text) === undefined,
    explain: explainPostgresUrl,
  },
  'schema-name': {
    expects:
      'a lower-case letter and then up to 62 lower-case letters, digits and underscores; not pg_..., information_schema or drizzle',
    check: isSchemaName,
  },
  'redis-url': {
    expects: 'a redis:// or rediss:// URL',
    check: (text: string) => explainRedisUrl(text) === undefined,
    explain: explainRedisUrl,
  },
  'smtp-url': {
    expects: 'an smtp:// or smtps:// URL',
    check: (text: string) => explainSmtpUrl(text) === undefined,
    explain: explainSmtpUrl,
  },
  mailbox: {
    expects:
      'an email address, or a name and an address such as Acme <accounts@example.com> or "Acme, Inc." <accounts@example.com>',
    check: isMailbox,
  },
  origin: { expects: 'an origin such as https://app.example.com, or *', check: isOrigin },
  host: { expects: 'an IP address or a host name', check: isHost },
  'trusted-proxies': {
    expects: 'true, a number of hops (1-99), or comma-separated addresses and networks (10.0.0.0/8)',
    check: isTrustedProxies,
  },
  email: {
    expects: 'an email address in ASCII',
    check: (text: string) =>
      isAscii(text) && /^[^\s@"(),:;<>[\\\]]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$/.test(text),
  },
  header: {
    expects: 'visible ASCII characters without spaces',
    check: (text: string) => /^[\x21-\x7e]+$/.test(text),
  },
} satisfies Record<string, Format>

export type FormatName = keyof typeof formats

/** Returns what is wrong with an invalid text, where its format knows more than what it expects. */
export function explainInvalid(name: string | undefined, text: string): string | undefined {
  const format: Format | undefined = isFormatName(name) ? formats[name] : undefined
  return format?.explain?.(text)
}

export function isFormatName(name: string | undefined): name is FormatName {
  return name !== undefined && Object.hasOwn(formats, name)
}
