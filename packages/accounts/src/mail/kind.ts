/** The kind of work that sends mails. */
import type { Database } from '@resource-api/database'
import type { SecretBox } from '@resource-api/http/config'
import { createRetrySchedule, createSlots, toErrorText, type WorkKind } from '@resource-api/work'
import type { FastifyBaseLogger } from 'fastify'
import type { LinkKind } from '../accounts/links.ts'
import { mailChannel } from './channels.ts'
import { advanceWaiting, loadMails, MAIL, type MailDetails } from './mail-store.ts'
import { formatMailTime } from './mail-time.ts'
import { createRecovery } from './recovery.ts'
import type { RenderMail } from './templates.ts'
import { isPermanent, MAX_CONNECTIONS, SEND_TIMEOUT_MS, type Transport } from './transport.ts'

/** A claim lasts this much longer than an attempt, in which its result is stored. */
const LEASE_MARGIN_MS = 30_000

const HOUR = 3_600
/** The seconds after the first failed attempt, the second, and so on; the last one is repeated. Links live for half an hour. */
const DELAYS = [5, 30, 120, 600, HOUR, 3 * HOUR, 6 * HOUR]
/** Attempts end this long after the mail was enqueued. */
const MAX_AGE_MS = 24 * HOUR * 1_000

const getDelay = createRetrySchedule(DELAYS.map((seconds) => seconds * 1_000))

/**
 * Returns the milliseconds until the next attempt; null if none follows.
 * @param attempts how many attempts have failed, 1 or more
 * @param ageMs since the mail was enqueued
 */
export function getRetryDelay(attempts: number, ageMs: number, random?: () => number): number | null {
  const delay = getDelay(Math.min(attempts, DELAYS.length), random) ?? 0
  return ageMs + delay > MAX_AGE_MS ? null : delay
}

/** The purposes of the templates with a link of their own. */
const purposes: Readonly<Record<string, LinkKind>> = {
  'password-reset': 'reset',
  'email-verification': 'verify',
  invitation: 'invite',
}

interface MailOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  transport: Transport
  secretBox: SecretBox
  render: RenderMail
  /** Returns the address of a page; without a link, of the page on which a person asks for one. */
  buildLink(purpose: LinkKind, link?: { id: string; token: string }): string
  /** The name of the service in mails. */
  product: string
  /** Whether the links of mails are logged: where no mail is sent, outside production. */
  logsLinks: boolean
}

export function createMailKind(options: MailOptions): WorkKind<MailDetails> {
  const { database, log, transport, secretBox, render, buildLink, product, logsLinks } = options
  const recovery = createRecovery(() => advanceWaiting(database))

  /** Sends a mail, or does nothing if there is no one to send it to, or its link is void. */
  const send = async ({ id, ...details }: MailDetails, signal: AbortSignal): Promise<void> => {
    const { user_name, is_verified, link_expires_at } = details
    const { template, recipient, values, link_id, token_box } = details.mail
    if (user_name === null || (link_id !== null && link_expires_at === null)) return
    const link =
      link_id === null || token_box === null
        ? undefined
        : buildLink(purposes[template] ?? 'reset', { id: link_id, token: secretBox.decrypt(token_box, id) })
    const rendered = render(template, {
      ...values,
      product,
      recipient,
      reset_link: buildLink('reset'),
      ...(is_verified && { name: user_name }),
      ...(link !== undefined && { link }),
      ...(link_expires_at !== null && { expires: formatMailTime(link_expires_at) }),
    })
    await recovery.observe(() => transport.send({ id, template, to: recipient, ...rendered }, signal))
    mailChannel.publish({ result: 'sent' })
    if (logsLinks) log.info({ template, recipient, link }, 'mail written')
  }

  return {
    name: MAIL,
    slots: createSlots(MAX_CONNECTIONS),
    timeoutMs: SEND_TIMEOUT_MS,
    leaseMs: SEND_TIMEOUT_MS + LEASE_MARGIN_MS,
    isPatient: true,
    keepDays: 7,
    load: (rows) => loadMails(database, rows),
    async run(_row, { details, signal }) {
      if (details) await send(details, signal)
      return { status: 'succeeded', isRemoved: true }
    },
    fail({ id, payload, attempts, created_at }, err) {
      const delayMs = isPermanent(err) ? null : getRetryDelay(attempts, Date.now() - Date.parse(created_at))
      const failure = { id, template: payload.template, attempts, err }
      log.warn(failure, delayMs === null ? 'a mail was not sent' : 'a mail is sent again later')
      if (delayMs === null) mailChannel.publish({ result: 'failed' })
      return { status: delayMs === null ? 'failed' : 'pending', delayMs, error: toErrorText(err) }
    },
    async afterSave(results) {
      if (!results.some(({ result }) => result.status === 'succeeded')) return
      await recovery.settle().catch((err) => log.warn({ err }, 'the mails that wait could not be advanced'))
    },
  }
}
