/** Encrypts stored secrets with the current key after a change of APP_SECRET, so that the former one is not needed forever. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import type { SecretBox } from './delivery/secret-box.ts'

const BATCH_SIZE = 100

interface StoredSecrets {
  id: string
  secret_box: string
  previous_secret_box: string | null
}

const SELECT = `select id, secret_box, previous_secret_box from webhook_endpoints where id > $1
  order by id limit ${BATCH_SIZE}`

/** Neither the revision nor an event: the secrets are the same. After a concurrent rotation, nothing is done. */
const UPDATE = `update webhook_endpoints as e set secret_box = r.current, previous_secret_box = r.previous
  from jsonb_to_recordset($1::jsonb) as r (id uuid, former text, current text, previous text)
  where e.id = r.id and e.secret_box = r.former`

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

const REMOVE_EXPIRED = `update webhook_endpoints set previous_secret_box = null, previous_secret_expires_at = null
  where previous_secret_expires_at < now()`

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
  await connection.run(REMOVE_EXPIRED)
  for (let last: string | undefined = FIRST_ID; last !== undefined; ) {
    const rows: StoredSecrets[] = await queryRows<StoredSecrets>(connection, SELECT, [last])
    const changes = rows.flatMap(({ id, secret_box: former, previous_secret_box: before }) => {
      const [current, previous] = [renew(former, id), before === null ? null : renew(before, id)]
      return current === former && previous === before ? [] : [{ id, former, current, previous }]
    })
    if (changes.length > 0) await connection.run(UPDATE, [JSON.stringify(changes)])
    last = rows.length === BATCH_SIZE ? rows.at(-1)?.id : undefined
  }
  return failures
}
