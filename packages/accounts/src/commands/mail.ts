/** `mail list` and `mail preview`: show the mails that wait or failed, and what a mail looks like. */
import { writeFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { Argument, Command } from '@commander-js/extra-typings'
import { jsonOption, printRows, UsageError, withMigratedDatabase } from '@resource-api/cli'
import { identity, newId } from '@resource-api/database'
import { work } from '@resource-api/database/tables'
import { readConfig } from '@resource-api/http/config'
import { and, eq, gt, sql } from 'drizzle-orm'
import { loadMailTools } from '../mail/load-tools.ts'
import { getSender } from '../mail/mail-settings.ts'
import { MAIL, type MailPayload } from '../mail/mail-store.ts'

const COLUMNS = ['template', 'recipient', 'state', 'created_at', 'attempts', 'next_attempt_at', 'error']

const list = new Command('list')
  .description('List the mails that wait to be sent, and those that failed')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
A mail that was sent is not listed. Attempts are repeated for 24 hours, unless the mail server refuses the mail for
good; a mail that failed is listed for 7 days. Servers may run at the same time.`,
  )
  .action(({ json }) =>
    withMigratedDatabase(readConfig(), (database) =>
      printRows(json, COLUMNS, (afterId, limit) => {
        const { id, created_at, attempts, next_attempt_at, error } = work
        const state = sql<string>`case when ${next_attempt_at} is null then 'failed' else 'waiting' end`
        const getField = (name: keyof MailPayload) => sql<string>`${work.payload} ->> ${name}`.as(name)
        return database
          .select({
            ...{ id, template: getField('template'), recipient: getField('recipient') },
            ...{ state: state.as('state'), created_at, attempts, next_attempt_at, error },
          })
          .from(work)
          .where(and(eq(work.kind, MAIL), gt(id, afterId)))
          .orderBy(id)
          .limit(limit)
      }),
    ),
  )

/** @throws UsageError if there is no such template, or another kind of file is wanted */
async function writePreview(name: string, file: string): Promise<void> {
  const { buildMessage, getSample, names, render } = await loadMailTools()
  if (!names.includes(name))
    throw new UsageError(`There is no template "${name}"; there are ${names.toSorted().join(', ')}`)
  const sample = getSample(name)
  const mail = render(name, sample)
  const extension = extname(file)
  if (extension === '.html') return writeFile(file, mail.html)
  if (extension === '.txt') return writeFile(file, `Subject: ${mail.subject}\n\n${mail.text}`)
  if (extension !== '.eml') throw new UsageError(`${file} must end with .html, .txt or .eml`)
  const to = sample.recipient ?? ''
  const message = await buildMessage(getSender(readConfig()), { ...mail, id: newId(), template: name, to })
  await writeFile(file, message)
}

const preview = new Command('preview')
  .description('Write a mail with sample values into a file')
  .addArgument(new Argument('<name>', 'The name of the template, such as invitation'))
  .addArgument(
    new Argument(
      '[file]',
      'The file, which is overwritten: .html, .txt, or .eml for mail programs (default: <name>.html)',
    ),
  )
  .addHelpText(
    'after',
    `
Checks all templates, as the start of '${identity.program} serve' does. Nothing is sent, and no database is opened.`,
  )
  .action(async (name, file = `${name}.html`) => {
    await writePreview(name, file)
    console.log(`Wrote ${file}`)
  })

export const mailCommands = [list, preview]
