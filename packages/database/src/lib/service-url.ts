/** Reads the URL of a service strictly: what a client library would ignore or guess is an error. */

/** A text in an error message. Other names may be parts of a password that is not percent-encoded. */
const PRINTABLE_NAME = /^[A-Za-z0-9_.-]{1,40}$/
/** `URL` accepts a missing or a third slash, removes white space, and reads a backslash as a slash. */
const SHAPE = /^[a-z]+:\/\/[^/\s\\][^\s\\]*$/i

/** A URL that cannot be used. The message contains no part of a password. */
export class UrlError extends Error {
  override readonly name = 'UrlError'
  /** What is wrong, as the end of a sentence. */
  readonly reason: string

  constructor(reason: string) {
    super(`The URL is not valid: ${reason}`)
    this.reason = reason
  }
}

/** Names a parameter in a message. */
export const quoteName = (name: string): string =>
  PRINTABLE_NAME.test(name) ? `its parameter "${name}"` : 'one of its parameters'

/** @throws UrlError */
export function decodePercent(text: string): string {
  try {
    const decoded = decodeURIComponent(text)
    if (!decoded.includes('\0')) return decoded
  } catch {}
  throw new UrlError(
    'a percent sign must be followed by two hexadecimal digits of UTF-8 (%25 is a percent sign)',
  )
}

/** Returns undefined if the text has another shape than `scheme://host`, or a scheme that is not one of `schemes`. */
export function parseUrl(text: string, schemes: readonly string[]): URL | undefined {
  const url = SHAPE.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url && url.hostname !== '' && schemes.includes(url.protocol.slice(0, -1)) ? url : undefined
}

export interface ServiceUrl {
  scheme: string
  /** An IPv6 address without brackets. */
  host: string
  port: number | undefined
  user: string
  password: string
  /** Without the first slash. */
  path: string
  parameters: ReadonlyMap<string, string>
}

/** The values that a parameter takes. */
type Values = readonly string[] | RegExp

/** @throws UrlError */
function checkParameter(name: string, value: string, supported: Readonly<Record<string, Values>>): void {
  const values = Object.hasOwn(supported, name) ? supported[name] : undefined
  if (values === undefined)
    throw new UrlError(
      `${quoteName(name)} is not supported: supported are ${Object.keys(supported).join(', ')}`,
    )
  if (values instanceof RegExp ? values.test(value) : values.includes(value)) return
  throw new UrlError(
    `${quoteName(name)} must ${values instanceof RegExp ? 'have other characters' : `be ${values.join(' or ')}`}`,
  )
}

/**
 * @param schemes without colon
 * @param supported parameters
 * @throws UrlError
 */
export function parseServiceUrl(
  text: string,
  schemes: readonly string[],
  supported: Readonly<Record<string, Values>>,
): ServiceUrl {
  const url = parseUrl(text, schemes)
  if (!url)
    throw new UrlError(
      `it must have the form ${schemes[0]}://user:password@host:port` +
        ' (in a user and a password, the characters : / ? # @ % must be percent-encoded)',
    )
  if (text.includes('#')) throw new UrlError('it must not have a fragment; in a password, # is %23')
  const parameters = new Map<string, string>()
  for (const [name, value] of url.searchParams) {
    checkParameter(name, value, supported)
    if (parameters.has(name)) throw new UrlError(`${quoteName(name)} is repeated`)
    parameters.set(name, value)
  }
  return {
    scheme: url.protocol.slice(0, -1),
    host: decodePercent(url.hostname).replace(/^\[|\]$/g, ''),
    port: url.port === '' ? undefined : Number(url.port),
    user: decodePercent(url.username),
    password: decodePercent(url.password),
    path: decodePercent(url.pathname.slice(1)),
    parameters,
  }
}
