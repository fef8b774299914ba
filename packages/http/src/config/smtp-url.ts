/** Reads `MAIL_URL`. nodemailer ignores options that it does not know, and reads an empty `requireTLS` as false. */
import { isIP } from 'node:net'
import { parseServiceUrl, UrlError } from '@resource-api/database/values'

const FLAG = ['true', 'false']
const OPTIONS = {
  requireTLS: FLAG,
  ignoreTLS: FLAG,
  name: /^[A-Za-z0-9.:[\]-]{1,255}$/,
  'tls.rejectUnauthorized': FLAG,
  'tls.servername': /^[A-Za-z0-9.-]{1,255}$/,
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

/**
 * Returns the options of nodemailer. With `smtp:`, STARTTLS is required outside loopback, unless the URL says
 * `?requireTLS=false` or `?ignoreTLS=true`.
 * @throws UrlError
 */
export function parseSmtpUrl(text: string) {
  const { scheme, host, port, user, password, path, parameters } = parseServiceUrl(
    text,
    ['smtp', 'smtps'],
    OPTIONS,
  )
  if (path !== '') throw new UrlError('it must not have a path; in a password, / is %2F')
  if (port === 0) throw new UrlError('its port must be a number from 1 to 65535')
  const isTrue = (option: keyof typeof OPTIONS) => parameters.get(option) === 'true'
  const ignoreTLS = isTrue('ignoreTLS')
  const requireTLS = parameters.has('requireTLS') ? isTrue('requireTLS') : !ignoreTLS && !isLoopback(host)
  if (ignoreTLS && requireTLS)
    throw new UrlError('its parameters "requireTLS" and "ignoreTLS" must not both be true')
  const name = parameters.get('name')
  const servername = parameters.get('tls.servername')
  return {
    host,
    // nodemailer chooses 587 or 465.
    ...(port !== undefined && { port }),
    secure: scheme === 'smtps',
    requireTLS,
    ignoreTLS,
    ...((user || password) && { auth: { user, pass: password } }),
    ...(name !== undefined && { name }),
    tls: {
      rejectUnauthorized: parameters.get('tls.rejectUnauthorized') !== 'false',
      ...(servername !== undefined && { servername }),
    },
  }
}
