/** What the commands of users and API keys share. */
import { Argument, Option } from '@commander-js/extra-typings'
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { toEmailAddress } from '../../lib/email-address.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { createBodyReader } from '../../plugins/collection/request/body.ts'
import { ApiError } from '../../plugins/errors/index.ts'
import { createAjv } from '../../plugins/validation/formats.ts'
import { UsageError } from './usage-error.ts'

export const emailArgument = new Argument('<email>', 'The e-mail address of the user')
export const jsonOption = new Option('--json', 'Print JSON')

/** The help about the database of a command that lists rows. */
export const READS_HELP = `The oldest is first. --json prints one JSON array, with a line for each element.
Servers may run at the same time, except on the embedded database.`

/** The help about the database of a command that changes a user or a key. */
export const WRITES_HELP = `Running servers apply the change within 5 s. On the embedded database, stop the server first.`

/** Validates and normalizes fields as the API does. @throws UsageError with all violations */
export function readFields(
  { check, schemas }: Pick<ResourceDefinition, 'check' | 'schemas'>,
  fields: Record<string, unknown>,
  mode: 'create' | 'update' = 'create',
): Record<string, unknown> {
  const input = mode === 'create' ? schemas.create : schemas.change
  const reader = createBodyReader({ ajv: createAjv(), read: schemas.read, input, mode, check })
  try {
    return reader.read({ members: fields, prefix: '', violations: [] })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new UsageError(error.violations.map(({ field, message }) => `${field} ${message}`).join('; '))
  }
}

/** @throws UsageError if the text is not an e-mail address, Error if no user has it */
export async function findUser(database: Database, text: string): Promise<{ id: string; email: string }> {
  const email = toEmailAddress(text)
  if (email === undefined) throw new UsageError('An e-mail address consists of visible ASCII characters')
  const [user] = await queryRows<{ id: string }>(database, 'select id from users where email = $1', [email])
  if (!user) throw new Error(`No user has the e-mail address ${email}`)
  return { id: user.id, email }
}
