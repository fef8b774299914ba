/** Sends mails by SMTP, or writes them as files. */
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseSmtpUrl } from '@resource-api/http/config'
import type { Mailbox } from '@resource-api/http/internal'
import { createTransport } from 'nodemailer'
import type { Options } from 'nodemailer/lib/mailer/index.js'

/** Connections to the SMTP server, and mails that are sent at the same time. */
export const MAX_CONNECTIONS = 5
const CONNECT_TIMEOUT_MS = 10_000
/** Without a byte from the server. */
const SOCKET_TIMEOUT_MS = 20_000
/** The longest that one attempt takes, whatever the server does. */
export const SEND_TIMEOUT_MS = 60_000

export interface Dkim {
  domainName: string
  keySelector: string
  privateKey: string
}

/** A mail without the sender. */
export interface OutgoingMail {
  /** The local part of the `Message-ID`. */
  id: string
  template: string
  to: string
  subject: string
  text: string
  html: string
}

export interface Transport {
  /** @param signal ends the attempt. @throws Error if the server did not take the mail */
  send(mail: OutgoingMail, signal: AbortSignal): Promise<void>
  /** Ends what is being sent. */
  close(): void
}

/** Builds a message. Of no part nodemailer may read a file or a URL. */
const toMessage = (from: Mailbox, { id, to, subject, text, html }: OutgoingMail): Options => ({
  from,
  // As an object, it is one address, whatever it contains.
  to: { name: '', address: to },
  subject,
  text,
  html,
  messageId: `<${id}@${from.address.split('@').at(-1)}>`,
  // RFC 3834, section 5: no automatic answers.
  headers: { 'Auto-Submitted': 'auto-generated' },
  disableFileAccess: true,
  disableUrlAccess: true,
})

/** Creates the transport of a server. */
export function createSmtpTransport(url: string, from: Mailbox, dkim: Dkim | undefined): Transport {
  const transporter = createTransport({
    ...parseSmtpUrl(url),
    pool: true,
    maxConnections: MAX_CONNECTIONS,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    dnsTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SOCKET_TIMEOUT_MS,
    ...(dkim && { dkim }),
  })
  return {
    async send(mail, signal) {
      // The types do not know `signal` yet.
      const message = { ...toMessage(from, mail), signal }
      await transporter.sendMail(message)
    },
    // Without `force`, a server that never answers would keep the process.
    close: () => transporter.close({ force: true }),
  }
}

/** Builds a mail as it is sent, without a signature. */
export async function buildMessage(from: Mailbox, mail: OutgoingMail): Promise<Buffer> {
  const transporter = createTransport({ streamTransport: true, buffer: true })
  const { message } = await transporter.sendMail(toMessage(from, mail))
  // With `buffer`, it is no stream.
  return message as Buffer
}

/** Creates the transport that writes each mail into a file of its own, which only its owner can read. */
export const createFileTransport = (folder: string, from: Mailbox): Transport => ({
  async send(mail) {
    const message = await buildMessage(from, mail)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // UUIDv7: the names are in the order of the mails.
    const file = join(folder, `${mail.id}-${mail.template}.eml`)
    await writeFile(`${file}.tmp`, message, { mode: 0o600 })
    await rename(`${file}.tmp`, file)
  },
  close: () => {},
})

/** Returns the code with which the server refused the recipient or the text; undefined for any other error. */
function getRefusal(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  const [responseCode, command] = ['responseCode', 'command'].map((name) => Reflect.get(error, name))
  return typeof responseCode === 'number' && ['RCPT TO', 'DATA'].includes(String(command))
    ? responseCode
    : undefined
}

/** Returns whether other mails may be sent: the server answered, about this one. */
export const isAboutMail = (error: unknown): boolean => getRefusal(error) !== undefined

/**
 * Returns whether another attempt cannot succeed: the server refused the recipient or the text for good (RFC 5321, section
 * 4.2.1). A refused sign-in or sender is a mistake of the settings, which will be corrected.
 */
export const isPermanent = (error: unknown): boolean => (getRefusal(error) ?? 0) >= 500
