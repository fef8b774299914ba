/** Mails: rows, written in the transaction of their cause, and sent in the background. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../../drizzle/client/types.ts'
import type { Mailbox } from '../../lib/mailbox.ts'
import { getServerUrl } from '../http/server-url.ts'
import type { SecretBox } from '../webhooks/delivery/secret-box.ts'
import { enqueueMail, type NewMail } from './enqueue.ts'
import { type MailState, pruneMails } from './mail-store.ts'

/** Enqueues mails in the transactions of their causes. */
export interface MailQueue {
  enqueue(connection: Connection, mail: NewMail): Promise<void>
  /** Whether receivers get the mails; otherwise they are files. */
  isDelivered: boolean
  /** Returns the state of all mails as last read, at most a minute ago; undefined while the database does not answer. */
  getState(): MailState | undefined
}

interface MailOptions {
  /** Whether mails are sent, or written as files. */
  isConfigured: boolean
  /** The SMTP server; without one, mails are files in `folder`. */
  url: string | undefined
  /** The sender. */
  from: Mailbox
  folder: string
  dkim: { domainName: string; keySelector: string; privateKey: string } | undefined
  /** The team's own page for links. */
  appUrl: string | undefined
  publicUrl: string | undefined
  secretBox: SecretBox
  /** The name of the service in mails. */
  product: string
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if no mails are sent: in production without MAIL_URL. */
    mail: MailQueue | undefined
  }
}

/** The purpose that the link of a template has in its address. */
const purposes: Readonly<Record<string, string>> = {
  'password-reset': 'reset',
  'email-verification': 'verify',
  invitation: 'invite',
}

async function mail(app: FastifyInstance, options: MailOptions) {
  app.decorate('mail', undefined)
  const { appUrl, dkim, folder, from, isConfigured, product, publicUrl, secretBox, url } = options
  if (!isConfigured) return
  const { database, log, outbox } = app
  const [{ loadTemplates }, { createFileTransport, createSmtpTransport }, { createMailWorker }] =
    await Promise.all([import('./templates.ts'), import('./transport.ts'), import('./worker.ts')])
  const { names, render } = loadTemplates()
  const transport =
    url === undefined ? createFileTransport(folder, from) : createSmtpTransport(url, from, dkim)

  const worker = createMailWorker({
    ...{ database, log, transport, secretBox, render, product },
    logsLinks: url === undefined,
    buildLink({ template }, { id, token }) {
      const purpose = purposes[template] ?? template
      const address = new URL(appUrl ?? `${getServerUrl(app, publicUrl)}/account/${purpose}`)
      const query = { ...(appUrl !== undefined && { purpose }), id, token }
      for (const [name, value] of Object.entries(query)) address.searchParams.append(name, value)
      return address.href
    },
  })

  app.mail = {
    async enqueue(connection, sent) {
      if (!names.includes(sent.template)) {
        throw new Error(`There is no template templates/${sent.template}.txt`)
      }
      await enqueueMail(connection, sent, secretBox)
      worker.expect()
    },
    isDelivered: url !== undefined,
    getState: worker.getState,
  }
  outbox.subscribe(worker.onCommit)

  app.repeat((isWanted) => pruneMails(database, isWanted), 'old mails could not be deleted')
  // Not before: links have the address.
  app.addHook('onListen', async () => {
    if (url !== undefined && appUrl === undefined && publicUrl === undefined) {
      const address = getServerUrl(app, publicUrl)
      log.warn(
        { address },
        'links in mails lead to this address: set PUBLIC_URL if receivers cannot reach it',
      )
    }
    worker.start()
  })
  app.addHook('preClose', worker.pause)
  app.addHook('onClose', worker.stop)
}

export default fp(mail, { name: 'mail', dependencies: ['background', 'database', 'outbox'] })
