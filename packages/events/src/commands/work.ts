/** `work list` and `work retry`: show the work of the project that waits or failed, and attempt work that failed again. */
import { Argument, Command } from '@commander-js/extra-typings'
import {
  jsonOption,
  printResult,
  printRows,
  UsageError,
  withDatabase,
  withMigratedDatabase,
} from '@resource-api/cli'
import { work } from '@resource-api/database/tables'
import { isUuid } from '@resource-api/database/values'
import { readConfig } from '@resource-api/http/config'
import { sql } from 'drizzle-orm'

const COLUMNS = ['id', 'name', 'key', 'status', 'attempts', 'created_at', 'next_attempt_at', 'error']
const isOwn = sql`${work.kind} <> 'delivery' and ${work.kind} like 'work:%'`

const list = new Command('list')
  .description('List the work of the project that waits, and what failed')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Work that is done is not listed. Work that failed is listed for 30 days. Servers may run at the same time.`,
  )
  .action(({ json }) =>
    withMigratedDatabase(readConfig(), (database) =>
      printRows(json, COLUMNS, (afterId, limit) => {
        const { id, key, status, attempts, created_at, next_attempt_at, error } = work
        const name = sql<string>`split_part(${work.kind}, ':', 2)`.as('name')
        return database
          .select({ id, name, key, status, attempts, created_at, next_attempt_at, error })
          .from(work)
          .where(sql`${isOwn} and ${status} <> 'succeeded' and ${id} > ${afterId}`)
          .orderBy(id)
          .limit(limit)
      }),
    ),
  )

const retry = new Command('retry')
  .description('Attempt work that failed again')
  .addArgument(new Argument('<id>', 'The id, as `work list` shows it'))
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Its attempts are counted from the beginning. Running servers make the next one within 4 s.`,
  )
  .action((id, { json }) =>
    withDatabase(readConfig(), async (database) => {
      if (!isUuid(id)) throw new UsageError(`"${id}" is no id`)
      const [changed] = await database
        .update(work)
        .set({ status: 'pending', attempts: 0, next_attempt_at: sql`statement_timestamp()` })
        .where(sql`${isOwn} and ${work.id} = ${id} and ${work.status} = 'failed'`)
        .returning({ id: work.id, kind: work.kind })
      if (!changed) throw new Error(`No work with the id ${id} has failed`)
      printResult(json, changed, `The work ${changed.id} is attempted again`)
    }),
  )

export const workCommands = [list, retry]
