/** What the settings say of mails: whether there are any, their sender, signature and links. */
import { identity } from '@resource-api/database'
import {
  type Config,
  createConfiguredBox,
  type RunConfig,
  readPem,
  type SecretBox,
} from '@resource-api/http/config'
import { type Mailbox, parseMailbox } from '@resource-api/http/internal'

/** Returns whether mails are sent, or written as files. */
export const isMailConfigured = ({ MAIL_URL, NODE_ENV }: Pick<Config, 'MAIL_URL' | 'NODE_ENV'>): boolean =>
  MAIL_URL !== undefined || NODE_ENV !== 'production'

/** Returns the sender of mails. Those that are files have one too. */
export const getSender = ({ MAIL_FROM: from = '' }: Pick<Config, 'MAIL_FROM'>): Mailbox =>
  parseMailbox(from) ?? { name: identity.title, address: 'accounts@localhost' }

/** Returns the options of the DKIM signature; undefined without one. */
export function getDkim(
  config: Pick<Config, 'MAIL_DKIM_DOMAIN' | 'MAIL_DKIM_KEY' | 'MAIL_DKIM_SELECTOR'>,
): { domainName: string; keySelector: string; privateKey: string } | undefined {
  const { MAIL_DKIM_DOMAIN: domainName, MAIL_DKIM_KEY: key, MAIL_DKIM_SELECTOR: keySelector } = config
  if (domainName === undefined || keySelector === undefined || key === undefined) return undefined
  return { domainName, keySelector, privateKey: readPem(key) }
}

/** Creates the box of the tokens in mails that wait. */
export const createMailBox = (config: Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS'>): SecretBox =>
  createConfiguredBox(config, 'mail tokens')
