/** The statements of endpoints: which have due deliveries, how they fare, when they are disabled, and their secrets. */
import { type Connection, nextUpdatedAt, prepare } from '@resource-api/database'
import { webhookEndpoints as endpoints } from '@resource-api/database/tables'
import { NIL_UUID } from '@resource-api/database/values'
import type { SecretBox } from '@resource-api/http/config'
import { changeRows, SYSTEM_ORIGIN } from '@resource-api/resources/internal'
import type { ClaimedWork } from '@resource-api/work'
import { and, eq, gt, lt, sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import type { DeliveryResult } from './attempt.ts'
import { isEnabled } from './delivery-store.ts'

/** A delivery with what became of its attempt. */
interface Ended {
  row: ClaimedWork
  result: DeliveryResult
}

/** What the limits of endpoints need to know of one. A type, so that it is JSON. */
export type EndpointState = {
  /** The user who has it. */
  owner_id: string
  /** Whether its latest attempt failed. */
  is_failing: boolean
  /** How long its latest successful attempt took; null if there was none. */
  last_duration_ms: number | null
}

/** The endpoints to which is sent, as groups of work. */
export const enabledEndpoints = sql`select ${endpoints.id}, json_build_object('owner_id', ${endpoints.user_id},
    'is_failing', ${endpoints.failing_since} is not null, 'last_duration_ms', ${endpoints.last_duration_ms}) as state
  from ${endpoints} where ${isEnabled}`

const duration = sql`${sql.placeholder('durationMs')}::bigint`
const isFailingNow = sql`${sql.placeholder('isFailing')}::boolean`

/** Changes neither `revision` nor `updated_at`, so that it writes no event. */
const saveEndpoint = prepare((db) =>
  db
    .update(endpoints)
    .set({
      last_delivered_at: sql`case when ${duration} is null then ${endpoints.last_delivered_at} else clock.now end`,
      last_duration_ms: sql`coalesce(${duration}, ${endpoints.last_duration_ms})`,
      failing_since: sql`case when ${isFailingNow} then coalesce(${endpoints.failing_since}, clock.now) end`,
    })
    .from(sql`(select statement_timestamp() as now) as clock`)
    .where(
      and(
        eq(endpoints.id, sql.placeholder('id')),
        sql`(${duration} is not null or ${isFailingNow} <> (${endpoints.failing_since} is not null))`,
      ),
    ),
)

/**
 * Stores what the latest attempts say about their endpoints: whether the last one failed, and how long the last one that
 * succeeded took. One statement each: one for all could deadlock with that of another process.
 */
export async function saveEndpoints(connection: Connection, ended: readonly Ended[]): Promise<void> {
  const states = new Map<string, { isFailing: boolean; durationMs: number | null }>()
  for (const { row, result } of ended) {
    const { group: id } = row
    if (!result.outcome) continue
    const isFailing = result.status !== 'succeeded'
    const durationMs = isFailing ? (states.get(id)?.durationMs ?? null) : result.outcome.durationMs
    states.set(id, { isFailing, durationMs })
  }
  await Promise.all([...states].map(([id, state]) => saveEndpoint(connection, { id, ...state })))
}

/** Counts for metrics. */
export type EndpointCounts = {
  /** The endpoints that the service has disabled. Those that their owners disabled have no reason. */
  disabled: number
  /** The users who have enabled endpoints, and those of them who have one that fails. */
  owners: number
  failing_owners: number
}

const ofOwners = sql`count(distinct ${endpoints.user_id}) filter (where ${isEnabled}`

const selectCounts = prepare((db) =>
  db.execute<EndpointCounts>(sql`select count(${endpoints.disabled_reason}) as disabled, ${ofOwners}) as owners,
      ${ofOwners} and ${endpoints.failing_since} is not null) as failing_owners from ${endpoints}`),
)

export async function countEndpoints(connection: Connection): Promise<EndpointCounts> {
  const [counts] = await selectCounts(connection)
  if (!counts) throw new Error('An aggregate returned no row')
  return counts
}

/** Whether no attempt has succeeded for 5 days: `failing_since` is the first failure after the latest success. */
const HAS_FAILED_FOR_LONG = sql`${endpoints.failing_since} <= now() - interval '5 days'`

/** An enabled endpoint has no reason. */
const PREVIOUS = sql`json_build_object('status', 'enabled', 'disabled_reason', null)`

const REASONS = {
  gone: 'The endpoint answered 410 Gone',
  exhausted: 'All attempts of a delivery failed, and none of any delivery succeeded for 5 days',
} as const

/** Creates the function that disables the endpoint of an attempt, as an event of the service, if the result says so. */
export const createDisabling =
  ({ database, log, outbox }: FastifyInstance) =>
  async ({ row: { group: endpoint_id }, result: { disables } }: Ended): Promise<void> => {
    if (!disables) return
    const { url } = disables
    const reason = REASONS[disables.reason]
    const context = { connection: database, recorders: outbox.recorders, origin: SYSTEM_ORIGIN }
    // Not after a change of the URL since the attempt.
    const isMeant = and(eq(endpoints.id, endpoint_id), isEnabled, eq(endpoints.url, url))
    const change = database
      .update(endpoints)
      .set({
        status: 'disabled',
        disabled_reason: reason,
        revision: sql`${endpoints.revision} + 1`,
        updated_at: nextUpdatedAt(endpoints),
      })
      .where(disables.reason === 'gone' ? isMeant : and(isMeant, HAS_FAILED_FOR_LONG))
    const [endpoint] = await changeRows(context, endpoints, 'updated', change, {
      previous: PREVIOUS,
      returning: { id: endpoints.id },
    })
    if (!endpoint) return
    outbox.publish()
    // The path and the query may contain a token.
    log.warn({ endpoint_id, origin: new URL(url).origin, reason }, 'a webhook endpoint was disabled')
  }

/** Endpoints whose secrets one statement reads. */
const SECRETS_PER_BATCH = 100

/** Neither the revision nor an event: the secrets are the same. After a concurrent rotation, nothing is done. */
const storeSecrets = prepare((db) =>
  db
    .update(endpoints)
    .set({ secret_box: sql`r.current`, previous_secret_box: sql`r.previous` })
    .from(
      sql`jsonb_to_recordset(${sql.placeholder('changes')}::jsonb) as r (id uuid, former text, current text, previous text)`,
    )
    .where(sql`${endpoints.id} = r.id and ${endpoints.secret_box} = r.former`),
)

function readSecrets(connection: Connection, after: string) {
  const { id, secret_box, previous_secret_box } = endpoints
  const query = connection.select({ id, secret_box, previous_secret_box }).from(endpoints)
  return query.where(gt(id, after)).orderBy(id).limit(SECRETS_PER_BATCH)
}

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
  const expired = { previous_secret_box: null, previous_secret_expires_at: null }
  await connection.update(endpoints).set(expired).where(lt(endpoints.previous_secret_expires_at, sql`now()`))
  for (let last: string | undefined = NIL_UUID; last !== undefined; ) {
    const rows: Awaited<ReturnType<typeof readSecrets>> = await readSecrets(connection, last)
    const changes = rows.flatMap(({ id, secret_box: former, previous_secret_box: before }) => {
      const [current, previous] = [renew(former, id), before === null ? null : renew(before, id)]
      return current === former && previous === before ? [] : [{ id, former, current, previous }]
    })
    if (changes.length > 0) await storeSecrets(connection, { changes: JSON.stringify(changes) })
    last = rows.length === SECRETS_PER_BATCH ? rows.at(-1)?.id : undefined
  }
  return failures
}
