/** The links of the mails that an app enqueues, with the tokens, which only the mails have. */
import type { NewMail } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'

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
