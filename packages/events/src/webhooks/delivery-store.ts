/** The statements of deliveries: they are created, read for their attempts, and ended if their endpoint is disabled. */
import { type Connection, isAnyOf, nextUpdatedAt, prepare, users } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { type Role, staff } from '@resource-api/database/roles'
import {
  DELIVERY,
  webhookEndpoints as endpoints,
  events,
  toNames,
  work,
  workGroup,
} from '@resource-api/database/tables'
import { and, or, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { buildReadableCondition, getRoleRules, type RecordedResource } from '../events/readable.ts'
import type { EventRow } from '../events/represent-event.ts'
import type { BatchStep } from '../events/sequencer.ts'

/** What the attempt of a delivery needs. */
export type DeliveryDetails = {
  id: string
  endpoint_id: string
  event_id: string
  created_at: string
  url: string
  api_version: number
  endpoint_status: 'enabled' | 'disabled'
  secret_box: string
  /** Null if it has expired. */
  previous_secret_box: string | null
  owner_id: string
  owner_role: Role
  owner_status: string
  /** The event, with timestamps as `to_jsonb` writes them; null if it was removed, and for a test. */
  event: EventRow | null
  event_created_at: string | null
  /** The columns of the endpoint, for a test; otherwise null. */
  endpoint: Record<string, unknown> | null
}

export const TEST_EVENT_TYPE = `${getBuiltInName('webhook-endpoints')}.test`

/** The roles whose users may have endpoints. */
export const OWNER_ROLES: readonly Role[] = ['admin', ...staff]

/** The owner of an endpoint, in statements with events. */
export const owner = alias(users, 'owner')

/**
 * Builds the condition on rows of `events` that the owner of an endpoint may read.
 * @param resources those whose changes are events
 */
export const buildOwnerCondition = (resources: readonly RecordedResource[]): SQL | undefined =>
  or(
    ...OWNER_ROLES.map((role) =>
      and(
        sql`${owner.role} = ${sql.raw(`'${role}'`)}`,
        buildReadableCondition(resources, getRoleRules(resources, role), owner.id),
      ),
    ),
  )

/** In place of a parameter, so that PostgreSQL uses partial indexes. */
export const deliveryKind = sql.raw(`'${DELIVERY}'`)

export const isEnabled = sql`${endpoints.status} = 'enabled'`

/** The condition that an endpoint asks for an event. */
export const isSubscribed = sql`${endpoints.event_types} ?| array['*', ${events.resource_type} || '.*', ${events.type}]`

/** The columns with values of a delivery that is created for an event: `select DELIVERY, ...`. */
export const newDeliveryColumns = toNames(
  ...[work.kind, work.endpoint_id, work.user_id, work.event_id, work.event_type, work.bytes],
)

/**
 * Creates deliveries in the transaction that assigns positions: none is lost, and no event has two for an endpoint. An
 * event that happened before its endpoint was created is not sent, although its position may be assigned later. An
 * endpoint that is being deleted is left out once it is: the lock waits for that.
 * @param resources those whose changes are events
 */
export function createDeliveryStep(resources: readonly RecordedResource[]): BatchStep {
  const insertDeliveries = prepare((db) =>
    db.execute(sql`insert into ${work} (${newDeliveryColumns})
      select ${deliveryKind}, ${endpoints.id}, ${owner.id}, ${events.id}, ${events.type}, ${events.bytes}
      from ${endpoints}
      join ${users} as ${owner} on ${owner.id} = ${endpoints.user_id} and ${owner.status} = 'active'
      join ${events} on ${events.position} > ${sql.placeholder('after')} and ${events.position} <= ${sql.placeholder('last')}
        and ${events.created_at} >= ${endpoints.created_at} and ${isSubscribed}
      where ${isEnabled} and ${buildOwnerCondition(resources)}
      for key share of ${endpoints}`),
  )
  return (tx, { after, last }) => insertDeliveries(tx, { after, last })
}

/** Reads in one statement what the attempts of the rows need. */
const selectDetails = prepare((db) =>
  db.execute<DeliveryDetails>(sql`select ${work.id}, ${work.endpoint_id}, ${work.event_id}, ${work.created_at},
      ${endpoints.url}, ${endpoints.api_version}, ${endpoints.status} as endpoint_status, ${endpoints.secret_box},
      case when ${endpoints.previous_secret_expires_at} > now() then ${endpoints.previous_secret_box} end as previous_secret_box,
      ${owner.id} as owner_id, ${owner.role} as owner_role, ${owner.status} as owner_status,
      to_jsonb(${events}) as event, ${events.created_at} as event_created_at,
      case when ${work.event_type} = ${sql.raw(`'${TEST_EVENT_TYPE}'`)} then to_jsonb(${endpoints}) end as endpoint
    from ${work}
    join ${endpoints} on ${endpoints.id} = ${work.endpoint_id}
    join ${users} as ${owner} on ${owner.id} = ${endpoints.user_id}
    left join ${events} on ${events.id} = ${work.event_id}
    where ${isAnyOf(work.id, sql.placeholder('ids'))}`),
)

/** Reads what the attempts of deliveries need, by their ids. */
export async function loadDeliveries(
  connection: Connection,
  rows: readonly { id: string }[],
): Promise<ReadonlyMap<string, DeliveryDetails>> {
  const found = await selectDetails(connection, { ids: rows.map(({ id }) => id) })
  return new Map(found.map((each) => [each.id, each]))
}

export const DISABLED = 'the endpoint is disabled'

/** Deliveries that one statement ends. */
export const MAX_ENDED = 10_000
const maxEnded = sql.raw(String(MAX_ENDED))

/** The array makes PostgreSQL look the deliveries up by their index, however many it expects. */
const endDeliveries = prepare((db) => {
  const end = db
    .update(work)
    .set({
      ...{ status: 'failed', error: DISABLED, next_attempt_at: null },
      revision: sql`${work.revision} + 1`,
      updated_at: nextUpdatedAt(work),
    })
    .where(
      sql`${work.id} = any(array(
        select pending.id from ${endpoints} cross join lateral (
          select ${work.id} from ${work}
          where ${work.kind} = ${deliveryKind} and ${workGroup(work.endpoint_id)} = ${endpoints.id}
            and ${work.next_attempt_at} is not null
          limit ${maxEnded} for update skip locked
        ) as pending
        where ${endpoints.status} = 'disabled' limit ${maxEnded}
      ))`,
    )
    .returning({ id: work.id })
  return db.execute<{ count: number }>(
    sql`with ended as (${end.getSQL()}) select count(*) as count from ended`,
  )
})

/** Ends the deliveries that wait for disabled endpoints, up to 10,000. @returns their number */
export async function endDisabled(connection: Connection): Promise<number> {
  const [ended] = await endDeliveries(connection)
  return ended?.count ?? 0
}
