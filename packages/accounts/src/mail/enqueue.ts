/** Enqueues mails as rows. */
import { join } from 'node:path'
import { type Connection, newId } from '@resource-api/database'
import type { SecretBox } from '@resource-api/http/internal'
import type { NewMail } from '@resource-api/resources/internal'
import { insertMail } from './mail-store.ts'

/** Returns the function that enqueues mails of these templates. @param secretBox encrypts the tokens of links */
export const createEnqueue =
  ({ folder, names }: { folder: string; names: readonly string[] }, secretBox: SecretBox) =>
  async (connection: Connection, mail: NewMail): Promise<void> => {
    if (!names.includes(mail.template))
      throw new Error(`There is no template ${join(folder, `${mail.template}.txt`)}`)
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
