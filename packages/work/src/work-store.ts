/** The statements of work: rows are added, found, claimed, renewed, ended and counted. Each serves many rows. */
import { type Connection, newId, nextUpdatedAt, prepare } from '@resource-api/database'
import {
  DELIVERY,
  events,
  NIL_UUID,
  toNames,
  webhookEndpoints,
  work,
  workGroup,
} from '@resource-api/database/internal'
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { ClaimedWork, WorkKind, WorkResult } from './kinds.ts'
import type { DueGroup } from './places.ts'
import { createPruning, getUuidBefore } from './prune.ts'

const LEASE_MS = 30_000
/** The bytes of the events of the deliveries that are claimed at a time. */
const MAX_BYTES = 8 * 1024 * 1024
const { id, kind, key, payload, status, attempts, next_attempt_at, claim_id, error, endpoint_id } = work

const placeholder = (name: string) => sql.placeholder(name)
const recordset = (name: string, columns: string) =>
  sql`jsonb_to_recordset(${placeholder(name)}::jsonb) as ${sql.raw(`r (${columns})`)}`
const milliseconds = (expression: string) => sql.raw(`(${expression}) * interval '1 millisecond'`)
const epochMs = (time: SQL | PgColumn) => sql`(extract(epoch from ${time}) * 1000)::float8`
const inMs = sql`${epochMs(sql`next_attempt_at - clock_timestamp()`)}`
const revise = sql`${toNames(work.revision)} = ${work.revision} + 1, ${toNames(work.updated_at)} = ${nextUpdatedAt(work)}`

/** Statements that take longer are planned each time for a while. */
const SLOW_MS = 50
const PLANNED_MS = 60_000

/**
 * Prepares a statement. PostgreSQL keeps its plan, and one that was made while the table was nearly empty reads all of it:
 * 0.4 s with 100,000 rows. Once that happens, the statement is planned each time, until autovacuum has analyzed the table.
 */
function prepareAdaptive<Q extends Parameters<typeof prepare>[0]>(build: Q) {
  const [kept, planned] = [prepare(build), prepare(build, { customPlan: true })]
  let plannedUntil = Number.NEGATIVE_INFINITY
  return async (...args: Parameters<typeof kept>): Promise<Awaited<ReturnType<Q>>> => {
    const startedAt = performance.now()
    try {
      // The rows of the statement that is built.
      return (await (startedAt < plannedUntil ? planned : kept)(...args)) as Awaited<ReturnType<Q>>
    } finally {
      const endedAt = performance.now()
      if (endedAt - startedAt > SLOW_MS) plannedUntil = endedAt + PLANNED_MS
    }
  }
}

/** The milliseconds by which the clock of a kind is ahead of the database: 0 except in tests. */
const getAhead = ({ now }: WorkKind): number => (now ? now() - Date.now() : 0)
export const getLease = ({ leaseMs = LEASE_MS }: WorkKind): number => leaseMs

/** A row to add. */
export interface NewWork {
  id?: string
  kind: string
  /** No other row of the kind has it. */
  key?: string | null
  payload: Record<string, unknown>
  /** Milliseconds until the first attempt. Default: 0. */
  delayMs?: number
  /** When the first attempt is due, in milliseconds since the epoch. */
  dueAt?: number | null
}

/** `clock_timestamp`, so that a row that was added by a long transaction is not before others. */
const insertRow = prepare((db) =>
  db.execute(sql`insert into ${work} (${toNames(id, kind, key, payload, next_attempt_at)})
    values (${placeholder('id')}::uuid, ${placeholder('kind')}, ${placeholder('key')}, ${placeholder('payload')}::jsonb,
      coalesce(to_timestamp(${placeholder('dueAt')}::float8 / 1000),
        clock_timestamp() + ${placeholder('delayMs')}::float8 * interval '1 millisecond'))
    on conflict (${toNames(kind, key)}) where ${toNames(key)} is not null do update
      set ${toNames(payload)} = ${payload} || excluded.payload, ${toNames(next_attempt_at)} = excluded.next_attempt_at
      where ${kind} like 'job:%' and ${payload} ->> 'schedule' <> excluded.payload ->> 'schedule'
        and ${claim_id} is null
    returning 1`),
)

/**
 * Adds a row. If there is one with its key, nothing is added, but a job that does not run gets the schedule
 * in the payload: during a run, the row has the end of the claim, and is replaced by the result.
 * @returns whether anything has changed
 */
export async function insertWork(
  connection: Connection,
  { id: newRow = newId(), kind: of, key: only = null, payload: about, delayMs = 0, dueAt = null }: NewWork,
): Promise<boolean> {
  const values = { id: newRow, kind: of, key: only, payload: JSON.stringify(about), delayMs, dueAt }
  return (await insertRow(connection, values)).length > 0
}

/** The first row of each kind, and of each endpoint. */
const firstOf = (wantedKind: SQL, group: SQL | PgColumn) => sql`lateral (
    select ${next_attempt_at} from ${work}
    where ${kind} = ${wantedKind} and ${workGroup(endpoint_id)} = ${group} and ${next_attempt_at} is not null
    order by ${next_attempt_at} limit 1
  ) as first`

const selectDue = prepareAdaptive((db) =>
  db.execute<DueGroup & { kind: string }>(sql`select r.kind, ${sql.raw(`'${NIL_UUID}'`)}::uuid as id,
      null::uuid as owner_id, null::bigint as last_duration_ms, false as is_failing, ${inMs} - r.ahead_ms as due_in_ms
    from ${recordset('kinds', 'kind text, ahead_ms float8')}
    cross join ${firstOf(sql`r.kind`, sql.raw(`'${NIL_UUID}'::uuid`))}
    union all
    select ${sql.raw(`'${DELIVERY}'`)}, ${webhookEndpoints.id}, ${webhookEndpoints.user_id}, ${webhookEndpoints.last_duration_ms},
      ${webhookEndpoints.failing_since} is not null, ${inMs}
    from ${webhookEndpoints} cross join ${firstOf(sql.raw(`'${DELIVERY}'`), webhookEndpoints.id)}
    where ${placeholder('sendsDeliveries')}::boolean and ${webhookEndpoints.status} = 'enabled'
      and first.next_attempt_at <= now() + ${placeholder('withinMs')} * interval '1 millisecond'`),
)

/**
 * Returns which kinds have rows that are due or will be, and which enabled endpoints have deliveries that are due within a
 * time: reads one row of each.
 */
export const readDue = (connection: Connection, kinds: readonly WorkKind[], withinMs: number) =>
  selectDue(connection, {
    kinds: JSON.stringify(
      kinds
        .filter(({ name }) => name !== DELIVERY)
        .map((each) => ({ kind: each.name, ahead_ms: getAhead(each) })),
    ),
    sendsDeliveries: kinds.some(({ name }) => name === DELIVERY),
    withinMs,
  })

/** Sets the columns of a claim. The time is that of a CTE, because Citus accepts no such addition in SET. */
const setClaim = sql`${toNames(attempts)} = ${attempts} + 1, ${toNames(claim_id)} = ${placeholder('claimId')}::uuid,
  ${toNames(next_attempt_at)} = due.until, ${revise}`
const claimed = sql.join(
  [id, kind, key, payload, claim_id, attempts, work.created_at, endpoint_id, work.event_id, work.event_type],
  sql`, `,
)
const until = sql`statement_timestamp() + ${milliseconds('r.ahead_ms + r.lease_ms')} as until`

const claimRows = prepareAdaptive((db) =>
  db.execute<ClaimedWork>(sql`with found as (
      select found.*, ${until} from ${recordset('wanted', 'kind text, id uuid, count bigint, ahead_ms float8, lease_ms float8')}
      cross join lateral (
        select ${id}, ${work.event_id} from ${work}
        where ${kind} = r.kind and ${workGroup(endpoint_id)} = r.id
          and ${next_attempt_at} <= now() + ${milliseconds('r.ahead_ms')}
        order by ${next_attempt_at} limit r.count for update skip locked
      ) as found
    ), due as (
      select id, until from (
        select found.id, found.until, sum(${events.bytes}) over (order by ${events.bytes}, found.id) - ${events.bytes} as bytes_before
        from found left join ${events} on ${events.id} = found.event_id
      ) as sized where coalesce(bytes_before, 0) < ${sql.raw(String(MAX_BYTES))}
    ) update ${work} set ${setClaim} from due where ${id} = due.id returning ${claimed}`),
)

interface Wanted {
  kind: WorkKind
  /** An endpoint, or the constant of rows without one. */
  id: string
  count: number
}

/**
 * Claims due rows: counts an attempt of each, and keeps other processes from it until the lease ends. Of deliveries, those of
 * small events come first, and the first one beyond 8 MiB is the last; the others stay due.
 */
export const claimWork = (connection: Connection, wanted: readonly Wanted[]): Promise<ClaimedWork[]> =>
  claimRows(connection, {
    claimId: newId(),
    wanted: JSON.stringify(
      wanted.map(({ kind: each, ...rest }) => ({
        ...rest,
        kind: each.name,
        ahead_ms: getAhead(each),
        lease_ms: getLease(each),
      })),
    ),
  })

const claimFree = prepare((db) =>
  db.execute<ClaimedWork>(sql`with due as (
      select ${id}, ${until} from ${work}, ${recordset('wanted', 'ahead_ms float8, lease_ms float8')}
      where ${kind} = ${placeholder('kind')} and ${key} is not null
        and (${claim_id} is null or ${next_attempt_at} <= now() + ${milliseconds('r.ahead_ms')})
      for update of ${sql.raw('work')}
    ) update ${work} set ${setClaim} from due where ${id} = due.id returning ${claimed}`),
)

/** Claims the row of a kind that has one, whether it is due or not. @returns undefined if another process has it */
export async function claimNow(connection: Connection, wanted: WorkKind): Promise<ClaimedWork | undefined> {
  const times = JSON.stringify([{ ahead_ms: getAhead(wanted), lease_ms: getLease(wanted) }])
  return (await claimFree(connection, { claimId: newId(), kind: wanted.name, wanted: times }))[0]
}

const isHeld = sql`${id} = r.id and ${claim_id} = r.claim_id`

const renewRows = prepare((db) =>
  db.execute<{ id: string }>(sql`with renewed as (
      select r.*, ${until} from ${recordset('rows', 'id uuid, claim_id uuid, ahead_ms float8, lease_ms float8')}
    ) update ${work} set ${toNames(next_attempt_at)} = r.until from renewed as r where ${isHeld} returning ${id}`),
)

/** Renews claims. @returns the ids of the rows whose claim the process still has */
export async function renewWork(
  connection: Connection,
  rows: readonly { row: ClaimedWork; kind: WorkKind }[],
): Promise<string[]> {
  const values = rows.map(({ row, kind: each }) => ({
    ...{ id: row.id, claim_id: row.claim_id },
    ...{ ahead_ms: getAhead(each), lease_ms: getLease(each) },
  }))
  return (await renewRows(connection, { rows: JSON.stringify(values) })).map((row) => row.id)
}

const updatePayload = prepare((db) =>
  db.execute(sql`update ${work} set ${toNames(payload)} = ${placeholder('payload')}::jsonb
    where ${id} = ${placeholder('id')}::uuid and ${claim_id} = ${placeholder('claimId')}::uuid returning ${id}`),
)

/** Stores the payload of a row. @returns whether the process still has its claim */
export const savePayload = async (
  connection: Connection,
  { id: rowId, claim_id: claimId }: ClaimedWork,
  next: Record<string, unknown>,
): Promise<boolean> =>
  (await updatePayload(connection, { id: rowId, claimId, payload: JSON.stringify(next) })).length > 0

const resultColumns = `id uuid, claim_id uuid, status text, delay_ms float8, due_ms float8, has_ended boolean, error text, payload jsonb,
  is_uncounted boolean, is_removed boolean, response_status bigint, response_body text, duration_ms bigint`

/** A claim that is given back leaves what the attempt before it has stored. */
const keepUnlessEnded = (column: PgColumn, value: string) =>
  sql`${toNames(column)} = case when r.has_ended then ${sql.raw(value)} else ${column} end`

/**
 * Only of the attempt that was claimed: after its lease, another process may have begun the next one. A delivery that was
 * ended because its endpoint was disabled during the attempt gets the result all the same.
 */
const saveRows = prepareAdaptive((db) =>
  db.execute<{
    id: string
  }>(sql`with r as (select * from ${recordset('results', resultColumns)}), removed as (
      delete from ${work} using r where ${isHeld} and r.is_removed returning ${id}
    ), saved as (
      update ${work} set ${toNames(status)} = r.status, ${toNames(claim_id)} = null,
        ${toNames(attempts)} = ${attempts} - case when r.is_uncounted then 1 else 0 end,
        ${toNames(next_attempt_at)} = coalesce(to_timestamp(r.due_ms / 1000),
          (clock.now at time zone 'UTC' + ${milliseconds('r.delay_ms')}) at time zone 'UTC'),
        ${toNames(payload)} = coalesce(r.payload, ${payload}),
        ${keepUnlessEnded(error, 'r.error')},
        ${keepUnlessEnded(work.response_status, 'r.response_status')},
        ${keepUnlessEnded(work.response_body, 'r.response_body')},
        ${keepUnlessEnded(work.duration_ms, 'r.duration_ms')},
        ${toNames(work.delivered_at)} = case when r.status = 'succeeded' then clock.now end, ${revise}
      from r, (select statement_timestamp() as now) as clock
      where ${isHeld} and r.is_removed is not true returning ${id}
    ) select id from removed union all select id from saved`),
)

/** Stores results, and gives the claims back. @returns the ids of the rows whose claim the process still had */
export async function saveWork(
  connection: Connection,
  results: readonly { row: ClaimedWork; kind: WorkKind; result: WorkResult }[],
): Promise<Set<string>> {
  const values = results.map(({ row, kind: each, result }) => ({
    ...{ id: row.id, claim_id: row.claim_id, status: result.status, payload: result.payload },
    delay_ms: result.delayMs,
    due_ms: result.dueAt ?? (each.now && each.now() + (result.delayMs ?? 0)),
    has_ended: result.error !== undefined || result.sent !== undefined,
    error: result.error,
    ...{ is_uncounted: result.isUncounted, is_removed: result.isRemoved },
    response_status: result.sent?.responseStatus,
    response_body: result.sent?.responseBody,
    duration_ms: result.sent?.durationMs,
  }))
  return new Set((await saveRows(connection, { results: JSON.stringify(values) })).map((row) => row.id))
}

/** The rows of a kind that wait, and those that failed for good. */
export type WorkState = {
  kind: string
  waiting: number
  failed: number
  /** When the oldest row that waits was added, in milliseconds since the epoch; null if none waits. */
  oldest_ms: number | null
  /** The payload of a kind that has one row. */
  payload: Record<string, unknown> | null
}

const selectStates = prepare((db) =>
  db.execute<WorkState>(sql`select ${kind}, count(${next_attempt_at}) as waiting,
      count(*) filter (where ${status} = 'failed') as failed,
      ${epochMs(sql`min(${work.created_at}) filter (where ${next_attempt_at} is not null)`)} as oldest_ms,
      (array_agg(${payload}) filter (where ${key} = split_part(${kind}, ':', 2)))[1] as payload
    from ${work} where ${kind} <> ${sql.raw(`'${DELIVERY}'`)} group by ${kind}`),
)

/** Counts all rows except deliveries: 200,000 take a tenth of a second. */
export const readStates = (connection: Connection): Promise<WorkState[]> => selectStates(connection)

/** Creates the function that deletes the rows of a kind after so many days: those that are done, and all deliveries. */
export const createWorkPruning = ({ name }: WorkKind, days: number) =>
  createPruning({
    table: work,
    column: id,
    until: getUuidBefore(days),
    // A literal, so that PostgreSQL uses the partial index. Names have letters, digits, hyphens and one colon.
    where: sql`${kind} = ${sql.raw(`'${name}'`)} and ${name === DELIVERY ? sql`true` : sql`${next_attempt_at} is null`}`,
  })

/** Returns how many seconds the oldest row of a kind has waited; 0 if none waits, -1 without a state. */
export function getWaitSeconds(state: WorkState | undefined): number {
  if (!state) return -1
  return state.oldest_ms === null ? 0 : (Date.now() - state.oldest_ms) / 1000
}
