/** Enqueues mails as rows. */
import type { Connection } from '../../drizzle/client/types.ts'
import { newId } from '../../lib/ids.ts'
import type { SecretBox } from '../webhooks/delivery/secret-box.ts'
import { insertMail } from './mail-store.ts'

/** A mail to enqueue. */
export interface NewMail {
  /** The name of its files in `templates/`. */
  template: string
  recipient: string
  /** The user whom it is about. Default: the one who has the address when the mail is sent; without one, none is sent. */
  userId?: string
  /** The values of the template, without secrets. */
  values?: Readonly<Record<string, string>>
  /** The link in the mail. If it is void when the mail is sent, none is sent. */
  link?: { id: string; token: string }
}

/** Returns the function that enqueues mails of these templates. @param secretBox encrypts the tokens of links */
export const createEnqueue =
  (templates: readonly string[], secretBox: SecretBox) =>
  async (connection: Connection, mail: NewMail): Promise<void> => {
    if (!templates.includes(mail.template))
      throw new Error(`There is no template templates/${mail.template}.txt`)
    await enqueueMail(connection, mail, secretBox)
  }

/**
 * Inserts the row of a mail, which the worker of a running server sends.
 * @param secretBox encrypts the token of a link
 */
export async function enqueueMail(
  connection: Connection,
  { template, recipient, userId, values = {}, link }: NewMail,
  secretBox?: SecretBox,
): Promise<void> {
  if (link && !secretBox) throw new Error('The token of a link needs encryption')
  const id = newId()
  await insertMail(connection, {
    ...{ id, template, recipient, values },
    userId: userId ?? null,
    linkId: link?.id ?? null,
    tokenBox: link && secretBox ? secretBox.encrypt(link.token, id) : null,
  })
}
