/** What the commands of users and API keys share. */
import { Argument } from '@commander-js/extra-typings'
import { compileValue } from '@resource-api/api/validation'
import { UsageError } from '@resource-api/cli'
import { type Connection, type Database, users } from '@resource-api/database'
import { toEmailAddress } from '@resource-api/database/values'
import type { Config } from '@resource-api/http/config'
import {
  buildBody,
  type Collection,
  createDefaults,
  createEnqueue,
  createStores,
  type Mailer,
  type ResourceDefinition,
  type Row,
  type Store,
  SYSTEM_ORIGIN,
} from '@resource-api/resources/internal'
import { insertWork } from '@resource-api/work'
import { eq } from 'drizzle-orm'
import { enqueueMail } from '../mail/enqueue.ts'
import { isMailConfigured } from '../mail/mail-settings.ts'
import { getAccountRecorders } from '../recorders.ts'

export const emailArgument = new Argument('<email>', 'The email address of the user')

/** The help about the database of a command that lists rows. */
export const READS_HELP = `The oldest is first. --json prints one JSON array, with a line for each element.
Servers may run at the same time.`

/** The help about the database of a command that changes a user or a key. */
export const WRITES_HELP = `Running servers apply the change within 5 s.`

/** The queue of a command, whose mails have no links. A running server sends them. */
const notices: Pick<Mailer, 'enqueue'> = { enqueue: (connection, sent) => enqueueMail(connection, sent) }

/** Returns the store that writes rows of a collection, and records their changes as those of the system. */
export function createStore<R, C, U>(
  collection: Collection<R, C, U>,
  config: Config,
  tx: Connection,
): Store<R> {
  const store: Store<Row> = {
    ...createStores(collection, getAccountRecorders(config)).store(tx, SYSTEM_ORIGIN),
    of: () => {
      throw new Error('Commands have no stores of other resources')
    },
    beforeCommit() {
      throw new Error('Commands run no code of collections')
    },
    mail: isMailConfigured(config) ? notices : undefined,
    enqueue: createEnqueue({ enqueue: insertWork, hasKind: () => true }, tx),
    ip: undefined,
    isDryRun: false,
  }
  // The rows of the collection are those of its table.
  return store as Store<never>
}

/** Validates and normalizes fields as the API does. @throws UsageError with all violations */
export function readFields(
  definition: ResourceDefinition,
  fields: Record<string, unknown>,
  mode: 'create' | 'update' = 'create',
): Record<string, unknown> {
  const { value, violations } = compileValue(buildBody(definition, mode))(fields)
  if (violations.length > 0) {
    throw new UsageError(violations.map(({ field, message }) => `${field} ${message}`).join('; '))
  }
  const valid = Object(value)
  return mode === 'create' ? createDefaults(definition.schemas.create)(valid) : valid
}

/** @throws UsageError if the text is not an email address, Error if no user has it */
export async function findUser(database: Database, text: string) {
  const email = toEmailAddress(text)
  if (email === undefined) throw new UsageError('An email address consists of visible ASCII characters')
  const { id, email_verified_at } = users
  const [user] = await database.select({ id, email_verified_at }).from(users).where(eq(users.email, email))
  if (!user) throw new Error(`No user has the email address ${email}`)
  return { ...user, email }
}
