/** `consumers list` and `consumers skip`: show the consumers of events, and let one go on after an event that fails. */
import { Argument, Command } from '@commander-js/extra-typings'
import { jsonOption, printResult, printRows, withDatabase, withMigratedDatabase } from '@resource-api/cli'
import { isAnyOf } from '@resource-api/database'
import { eventFeed, work } from '@resource-api/database/tables'
import { readConfig } from '@resource-api/http/config'
import { asc, sql } from 'drizzle-orm'
import { type ConsumerState, skipFailed, toConsumerKind } from '../consumers/kind.ts'
import type { Own } from '../define-own.ts'

type LoadConsumers = () => Promise<Pick<Own, 'consumers'>>

const COLUMNS = [
  ...['name', 'position', 'last_position', 'failures'],
  ...['failed_event_id', 'next_attempt_at', 'error'],
]

const createList = (load: LoadConsumers) =>
  new Command('list')
    .description('List the consumers of events, with their cursors')
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
All events up to position are handled; last_position is the end of the feed. Servers may run at the same time.`,
    )
    .action(async ({ json }) => {
      const names = (await load()).consumers.map((each) => each.name)
      const field = (name: keyof ConsumerState) => sql`${work.payload} -> ${name}`
      await withMigratedDatabase(readConfig(), (database) =>
        printRows(json, COLUMNS, () =>
          database
            .select({
              name: sql<string>`${work.key}`.as('name'),
              position: sql<number>`(${field('position')})::bigint`.as('position'),
              last_position: sql<number>`(select ${eventFeed.last_position} from ${eventFeed})`.as(
                'last_position',
              ),
              failures: sql<number>`(${field('failures')})::bigint`.as('failures'),
              failed_event_id: sql<string | null>`${work.payload} ->> 'failed_event_id'`.as(
                'failed_event_id',
              ),
              failed_position: sql<number | null>`(${field('failed_position')})::bigint`.as(
                'failed_position',
              ),
              // Of the event that fails, not that of the next one.
              next_attempt_at: sql<
                string | null
              >`case when (${field('failures')})::bigint > 0 then ${work.next_attempt_at} end`.as(
                'next_attempt_at',
              ),
              error: work.error,
            })
            .from(work)
            .where(isAnyOf(work.kind, names.map(toConsumerKind)))
            .orderBy(asc(work.kind)),
        ),
      )
    })

const createSkip = () =>
  new Command('skip')
    .description('Let a consumer go on after the event that it cannot handle')
    .addArgument(new Argument('<name>', 'The name of the consumer'))
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
The event is not handled again. Running servers go on within a minute, or with the next event.`,
    )
    .action((name, { json }) =>
      withDatabase(readConfig(), async (database) => {
        const [skipped] = await skipFailed(database, name)
        if (!skipped)
          throw new Error(
            `No consumer "${name}" waits to handle an event again: it does not exist, does not fail, or is handling the event now`,
          )
        printResult(json, skipped, `Skipped the event ${skipped.event_id} at position ${skipped.position}`)
      }),
    )

/** @param load returns the consumers of the project */
export const createConsumerCommands = (load: LoadConsumers) => [createList(load), createSkip()]
