/** Sends the mails that wait: claims due ones, makes their attempts, and stores the results. */
import type { Database } from '@resource-api/database'
import { createClaimWorker, type SecretBox, storeResult, toErrorText } from '@resource-api/http/internal'
import type { FastifyBaseLogger } from 'fastify'
import type { LinkKind } from '../accounts/links.ts'
import { mailChannel } from './channels.ts'
import {
  advanceWaiting,
  type ClaimedMail,
  claim,
  type MailState,
  readDue,
  readState,
  removeMail,
  saveFailure,
} from './mail-store.ts'
import { formatMailTime } from './mail-time.ts'
import { createRecovery } from './recovery.ts'
import { getRetryDelay } from './retry-schedule.ts'
import type { RenderMail } from './templates.ts'
import { isPermanent, MAX_CONNECTIONS, SEND_TIMEOUT_MS, type Transport } from './transport.ts'

/** A claim lasts this much longer than an attempt, in which its result is stored. */
const LEASE_MARGIN_MS = 30_000
const LEASE_MS = SEND_TIMEOUT_MS + LEASE_MARGIN_MS
/** For how long after a mail was enqueued a commit of this process may be that of its transaction. */
const COMMIT_WINDOW_MS = 10_000
/** When the worker looks for a mail at the latest, if its commit is not announced. */
const POLL_DELAY_MS = 1_000
/** Between two counts of all mails at least. A count that takes long is made less often, so that it takes 2 % of the time. */
const STATE_INTERVAL_MS = 1_000
const STATE_PAUSE_FACTOR = 50

/** The purposes of the templates with a link of their own. */
const purposes: Readonly<Record<string, LinkKind>> = {
  'password-reset': 'reset',
  'email-verification': 'verify',
  invitation: 'invite',
}

/** Returns the address of a page; without a link, of the page on which a person asks for one. */
type BuildLink = (purpose: LinkKind, link?: { id: string; token: string }) => string

interface MailWorkerOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  transport: Transport
  secretBox: SecretBox
  render: RenderMail
  buildLink: BuildLink
  /** The name of the service in mails. */
  product: string
  /** Whether the links of mails are logged: where no mail is sent, outside production. */
  logsLinks: boolean
}

/** Returns the seconds until the next attempt; null if none follows. */
function getDelay({ attempts, created_at }: ClaimedMail, error: unknown): number | null {
  const age = (Date.now() - Date.parse(created_at)) / 1000
  return isPermanent(error) ? null : getRetryDelay(attempts, age)
}

export function createMailWorker(options: MailWorkerOptions) {
  const { database, log, transport, secretBox, render, buildLink, product, logsLinks } = options
  let sending = 0
  /** Mails that this process has enqueued and not seen yet. Those that were rolled back are among them, for some seconds. */
  let expected = 0
  /** A time of `performance.now()`. */
  let expectedUntil = 0
  let poll: NodeJS.Timeout | undefined
  /** As last read. */
  let state: MailState = { waiting: 0, failed: 0, oldest_ms: null }
  /** When it is read again, if there was an attempt since: a time of `performance.now()`. */
  let nextState = 0
  /** Aborted when the database is about to close. */
  const ended = new AbortController()
  const recovery = createRecovery(() => advanceWaiting(database))

  /** Sends a mail, or does nothing if there is no one to send it to, or its link is void. */
  const send = async (mail: ClaimedMail, signal: AbortSignal): Promise<void> => {
    const { id, link_id, token_box, link_expires_at, recipient, template, user_name, is_verified } = mail
    if (user_name === null || (link_id !== null && link_expires_at === null)) return
    const link =
      link_id === null || token_box === null
        ? undefined
        : buildLink(purposes[template] ?? 'reset', { id: link_id, token: secretBox.decrypt(token_box, id) })
    const rendered = render(template, {
      ...mail.values,
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

  const attempt = async (mail: ClaimedMail, stopping: AbortSignal): Promise<void> => {
    const { signal } = ended
    try {
      await send(mail, AbortSignal.timeout(SEND_TIMEOUT_MS))
      await storeResult(signal, log, () => removeMail(database, mail))
    } catch (error) {
      // At a shutdown, the next process makes the next attempt.
      const delay = stopping.aborted ? 0 : getDelay(mail, error)
      const { id, template, attempts } = mail
      const failure = { id, template, attempts, err: error }
      log.warn(failure, delay === null ? 'a mail was not sent' : 'a mail is sent again later')
      if (delay === null) mailChannel.publish({ result: 'failed' })
      await storeResult(signal, log, () => saveFailure(database, mail, { error: toErrorText(error), delay }))
      return
    }
    await recovery.settle().catch((err) => log.warn({ err }, 'the mails that wait could not be advanced'))
  }

  /** Reads the state unless it was read shortly before. @returns the milliseconds until it has to be read again */
  const refreshState = async (): Promise<number> => {
    const startedAt = performance.now()
    if (startedAt < nextState) return nextState - startedAt
    state = await readState(database)
    const endedAt = performance.now()
    nextState = endedAt + Math.max(STATE_INTERVAL_MS, STATE_PAUSE_FACTOR * (endedAt - startedAt))
    return Number.POSITIVE_INFINITY
  }

  const worker = createClaimWorker<ClaimedMail>({
    log,
    title: 'mails',
    async claimDue() {
      const free = MAX_CONNECTIONS - sending
      const claimed = free > 0 ? await claim(database, free, LEASE_MS / 1000) : []
      sending += claimed.length
      expected = Math.max(0, expected - claimed.length)
      // A mail that ends wakes the worker: there may be more.
      const dueInMs = claimed.length === free ? Number.POSITIVE_INFINITY : await readDue(database)
      return { claimed, dueInMs: Math.min(dueInMs, await refreshState()) }
    },
    async run(mail, stopping) {
      try {
        await attempt(mail, stopping)
      } finally {
        sending -= 1
      }
    },
  })

  return {
    start: worker.start,
    pause: worker.pause,

    /** Returns the state of all mails as last read, at most a minute ago; undefined while the database does not answer. */
    getState: () => (worker.hasFailed() ? undefined : state),

    /** Expects the commit of a mail that was enqueued. It looks for the mail by itself if the commit is not announced. */
    expect() {
      expected += 1
      expectedUntil = performance.now() + COMMIT_WINDOW_MS
      poll ??= setTimeout(() => {
        poll = undefined
        worker.wake()
      }, POLL_DELAY_MS).unref()
    },

    /** Looks for mails after a commit that may be that of a mail. */
    onCommit() {
      if (performance.now() >= expectedUntil) expected = 0
      if (expected > 0) worker.wake()
    },

    /** Waits for what is being sent, for ten seconds. */
    async stop() {
      clearTimeout(poll)
      await worker.stop()
      transport.close()
      ended.abort()
    },
  }
}
