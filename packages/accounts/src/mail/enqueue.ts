/** Enqueues mails as rows of work. */
import { join } from 'node:path'
import { type Connection, newId } from '@resource-api/database'
import { isUuid } from '@resource-api/database/values'
import type { SecretBox } from '@resource-api/http/config'
import type { NewMail } from '@resource-api/resources/internal'
import { insertWork, type Queue } from '@resource-api/work'
import { MAIL, type MailPayload } from './mail-store.ts'

type Add = Queue['enqueue']

/**
 * Returns the function that enqueues mails of these templates.
 * @param secretBox encrypts the tokens of links
 */
export const createMailEnqueue =
  ({ folder, names }: { folder: string; names: readonly string[] }, secretBox: SecretBox, add?: Add) =>
  async (connection: Connection, mail: NewMail): Promise<void> => {
    if (!names.includes(mail.template))
      throw new Error(`There is no template ${join(folder, `${mail.template}.txt`)}`)
    await enqueueMail(connection, mail, secretBox, add)
  }

/**
 * Inserts the row of a mail, which the worker of a running server sends.
 * @param secretBox encrypts the token of a link
 * @param add that of the worker of this process, if there is one
 * @throws Error if the id of the user or the link is no UUID
 */
export async function enqueueMail(
  connection: Connection,
  { template, recipient, userId, values = {}, link }: NewMail,
  secretBox?: SecretBox,
  add: Add = insertWork,
): Promise<void> {
  // The details of all mails that are claimed at the same time are read by one statement, which would fail.
  for (const given of [userId, link?.id])
    if (given !== undefined && !isUuid(given)) throw new Error(`A mail about "${given}", which is no UUID`)
  if (link && !secretBox) throw new Error('The token of a link needs encryption')
  const id = newId()
  const token_box = link && secretBox ? secretBox.encrypt(link.token, id) : null
  const payload: MailPayload = {
    ...{ template, recipient, values, token_box },
    user_id: userId ?? null,
    link_id: link?.id ?? null,
  }
  await add(connection, { id, kind: MAIL, payload })
}
