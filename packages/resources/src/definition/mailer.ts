/** What sends the mails of code: mails are written in the transactions of their causes. */
import type { Connection } from '@resource-api/database'

/** A mail to enqueue. */
export interface NewMail {
  /** The name of its files in `templates/` of `@resource-api/accounts`. */
  template: string
  recipient: string
  /** The user whom it is about. Default: the one who has the address when the mail is sent; without one, none is sent. */
  userId?: string
  /** The values of the template, without secrets. */
  values?: Readonly<Record<string, string>>
  /** The link in the mail. If it is void when the mail is sent, none is sent. */
  link?: { id: string; token: string }
}

export interface Mailer {
  enqueue(connection: Connection, mail: NewMail): Promise<void>
  /** Whether receivers get the mails; otherwise they are files. */
  isDelivered: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if no mails are sent: in production without MAIL_URL. */
    mail: Mailer | undefined
  }
}
