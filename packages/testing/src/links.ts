/** The mails that an app enqueues, and their links with the tokens, which only the mails have. */

import type { NewMail } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'

/** Returns an array to which each mail is added when it is enqueued, also if it is not sent later. */
export function recordMails({ mail }: Pick<FastifyInstance, 'mail'>): NewMail[] {
  if (!mail) throw new Error('The app sends no mails')
  const mails: NewMail[] = []
  const { enqueue } = mail
  mail.enqueue = (connection, sent) => {
    mails.push(sent)
    return enqueue(connection, sent)
  }
  return mails
}

/** Returns an array to which the link of each mail is added when the mail is enqueued. */
export function recordLinks({ mail }: Pick<FastifyInstance, 'mail'>): NonNullable<NewMail['link']>[] {
  if (!mail) throw new Error('The app sends no mails')
  const links: NonNullable<NewMail['link']>[] = []
  const { enqueue } = mail
  mail.enqueue = (connection, sent) => {
    if (sent.link) links.push(sent.link)
    return enqueue(connection, sent)
  }
  return links
}
