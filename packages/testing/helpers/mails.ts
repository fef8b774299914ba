/** The mails of an app: as files, or received by an SMTP server in this process. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type ParsedMail, simpleParser } from 'mailparser'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { type Owner, testFolder } from './database.ts'
import { waitUntil } from './time.ts'

export interface Mailbox {
  /** The settings of the app. */
  settings: Record<string, string>
  /** Returns all mails so far, oldest first. */
  read(): Promise<ParsedMail[]>
  /** Waits for the first mail to an address, or with a subject. */
  waitFor(wanted: { to?: string; subject?: RegExp }): Promise<ParsedMail>
}

export const getRecipient = ({ to }: ParsedMail): string =>
  [to ?? []].flat().flatMap(({ value }) => value.map(({ address }) => address ?? ''))[0] ?? ''

/** Returns the address of the link in a mail, and what its query has. */
export function getLink({ text = '' }: ParsedMail): { url: URL; id: string; token: string } {
  const url = new URL(/^https?:\S+$/m.exec(text)?.[0] ?? '')
  return { url, id: url.searchParams.get('id') ?? '', token: url.searchParams.get('token') ?? '' }
}

function createMailbox(settings: Record<string, string>, read: Mailbox['read']): Mailbox {
  return {
    settings,
    read,
    async waitFor({ to, subject }) {
      let found: ParsedMail | undefined
      await waitUntil(async () => {
        found = (await read()).find(
          (mail) =>
            (to === undefined || getRecipient(mail) === to) && (subject?.test(mail.subject ?? '') ?? true),
        )
        return found !== undefined
      })
      if (!found) throw new Error('no mail')
      return found
    },
  }
}

/** Returns the mails of an app with these settings, which writes them as files. */
export function createMailFiles(t: Owner): Mailbox & { folder: string } {
  const DATA_DIR = testFolder(t)
  const folder = join(DATA_DIR, 'mail')
  // The names begin with UUIDv7.
  const list = () => (existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.eml')) : [])
  const read = () => Promise.all(list().map((name) => simpleParser(readFileSync(join(folder, name)))))
  return { ...createMailbox({ DATA_DIR }, read), folder }
}

/** Starts an SMTP server on loopback. Without options, it takes all mails, without TLS and authentication. */
export async function startSmtpServer(
  t: Owner,
  {
    query = '',
    credentials = '',
    ...options
  }: SMTPServerOptions & { query?: string; credentials?: string } = {},
): Promise<Mailbox & { server: SMTPServer }> {
  const received: ParsedMail[] = []
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    onData(stream, _, callback) {
      simpleParser(stream).then((mail) => {
        received.push(mail)
        callback()
      }, callback)
    },
    ...options,
  })
  // A client that does not trust the certificate, for example.
  server.on('error', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => void server.close(resolve)))
  const { port } = server.server.address() as AddressInfo
  const MAIL_URL = `smtp://${credentials}127.0.0.1:${port}${query}`
  const settings = { MAIL_URL, MAIL_FROM: 'Acme <accounts@example.com>' }
  return { ...createMailbox(settings, async () => [...received]), server }
}
