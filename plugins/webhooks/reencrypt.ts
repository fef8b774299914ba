/** Encrypts stored secrets with the current key after a change of APP_SECRET, so that the former one is not needed forever. */
import { gt, lt, sql } from 'drizzle-orm'
import { prepare } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { webhookEndpoints } from '../../drizzle/event-tables.ts'
import { NIL_UUID } from '../../lib/ids.ts'
import type { SecretBox } from './delivery/secret-box.ts'

const BATCH_SIZE = 100

/** Neither the revision nor an event: the secrets are the same. After a concurrent rotation, nothing is done. */
const storeSecrets = prepare((db) =>
  db
    .update(webhookEndpoints)
    .set({ secret_box: sql`r.current`, previous_secret_box: sql`r.previous` })
    .from(
      sql`jsonb_to_recordset(${sql.placeholder('changes')}::jsonb) as r (id uuid, former text, current text, previous text)`,
    )
    .where(sql`${webhookEndpoints.id} = r.id and ${webhookEndpoints.secret_box} = r.former`),
)

const readSecrets = (connection: Connection, after: string) =>
  connection
    .select({
      id: webhookEndpoints.id,
      secret_box: webhookEndpoints.secret_box,
      previous_secret_box: webhookEndpoints.previous_secret_box,
    })
    .from(webhookEndpoints)
    .where(gt(webhookEndpoints.id, after))
    .orderBy(webhookEndpoints.id)
    .limit(BATCH_SIZE)

/** Removes expired secrets, and encrypts the others with the current key. @returns how many could not be decrypted */
export async function reencryptSecrets(connection: Connection, box: SecretBox): Promise<number> {
  let failures = 0
  const renew = (text: string, id: string): string => {
    if (box.isCurrent(text)) return text
    try {
      return box.encrypt(box.decrypt(text, id), id)
    } catch {
      failures += 1
      return text
    }
  }
  await connection
    .update(webhookEndpoints)
    .set({ previous_secret_box: null, previous_secret_expires_at: null })
    .where(lt(webhookEndpoints.previous_secret_expires_at, sql`now()`))
  for (let last: string | undefined = NIL_UUID; last !== undefined; ) {
    const rows: Awaited<ReturnType<typeof readSecrets>> = await readSecrets(connection, last)
    const changes = rows.flatMap(({ id, secret_box: former, previous_secret_box: before }) => {
      const [current, previous] = [renew(former, id), before === null ? null : renew(before, id)]
      return current === former && previous === before ? [] : [{ id, former, current, previous }]
    })
    if (changes.length > 0) await storeSecrets(connection, { changes: JSON.stringify(changes) })
    last = rows.length === BATCH_SIZE ? rows.at(-1)?.id : undefined
  }
  return failures
}
