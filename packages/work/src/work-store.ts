/** The statements of work: rows are added, found, claimed, renewed, ended and counted. Each serves many rows. */
import { type Connection, newId, nextUpdatedAt, prepare } from '@resource-api/database'
import { isCounted, toNames, work, workGroup } from '@resource-api/database/tables'
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { ClaimedWork, WorkKind, WorkResult } from './kinds.ts'
import { createPruning, getUuidBefore } from './prune.ts'
import { type DueGroup, NO_GROUP } from './slots.ts'

const LEASE_MS = 30_000
/** The bytes that the attempts which are claimed at a time may read. */
const MAX_BYTES = 8 * 1024 * 1024
const { id, kind, key, payload, status, attempts, next_attempt_at, claim_id, error, bytes } = work
/** The API shows rows with groups as deliveries of webhooks, by the names of these columns. */
const { response_status: code, response_body: text, duration_ms, delivered_at: succeeded_at } = work
const group = workGroup(work.endpoint_id)

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
  /** A member of the payload: a row with the key that has another value there gets the payload and the time. */
  replacesIf?: string
}

/** `clock_timestamp`, so that a row that was added by a long transaction is not before others. */
const insertRow = prepare((db) =>
  db.execute(sql`insert into ${work} (${toNames(id, kind, key, payload, next_attempt_at)})
    values (${placeholder('id')}::uuid, ${placeholder('kind')}, ${placeholder('key')}, ${placeholder('payload')}::jsonb,
      coalesce(to_timestamp(${placeholder('dueAt')}::float8 / 1000),
        clock_timestamp() + ${placeholder('delayMs')}::float8 * interval '1 millisecond'))
    on conflict (${toNames(kind, key)}) where ${toNames(key)} is not null do update
      set ${toNames(payload)} = ${payload} || excluded.payload, ${toNames(next_attempt_at)} = excluded.next_attempt_at
      where ${claim_id} is null
        and ${payload} ->> ${placeholder('replacesIf')}::text <> excluded.payload ->> ${placeholder('replacesIf')}::text
    returning 1`),
)

/**
 * Adds a row. If there is one with its key, nothing is added, but it is replaced as `replacesIf` says unless it is claimed:
 * it then has the end of the claim, and is replaced by the result.
 * @returns whether anything has changed
 */
export async function insertWork(
  connection: Connection,
  { id: newRow = newId(), kind: of, key: only = null, payload: about, delayMs = 0, ...rest }: NewWork,
): Promise<boolean> {
  const { dueAt = null, replacesIf = null } = rest
  const values = {
    id: newRow,
    kind: of,
    key: only,
    payload: JSON.stringify(about),
    delayMs,
    dueAt,
    replacesIf,
  }
  return (await insertRow(connection, values)).length > 0
}

/** In place of a parameter, so that PostgreSQL uses partial indexes. Names have letters, digits, hyphens and one colon. */
const toLiteral = (name: string) => sql.raw(`'${name}'`)
const noGroup = sql.raw(`'${NO_GROUP}'::uuid`)

/** The first row of a kind and group. */
const firstOf = (wantedKind: SQL, wantedGroup: SQL) => sql`lateral (
    select ${next_attempt_at} from ${work}
    where ${kind} = ${wantedKind} and ${group} = ${wantedGroup} and ${next_attempt_at} is not null
    order by ${next_attempt_at} limit 1
  ) as first`

const dueOfGroups = (name: SQL, groups: SQL) => sql`
    union all select ${name}, g.id, g.state, ${inMs} from (${groups}) as g
    cross join ${firstOf(name, sql`g.id`)}
    where first.next_attempt_at <= now() + ${placeholder('withinMs')} * interval '1 millisecond'`

/**
 * Creates the function that returns which kinds have rows that are due or will be, and which groups have rows that are due
 * within a time: it reads one row of each.
 */
export function createDueReader(kinds: readonly WorkKind[]) {
  const grouped = kinds.flatMap(({ name, groups }) => (groups ? [dueOfGroups(toLiteral(name), groups)] : []))
  const others = kinds.filter(({ groups }) => !groups)
  const selectDue = prepareAdaptive((db) =>
    db.execute<
      DueGroup & { kind: string }
    >(sql`select r.kind, ${noGroup} as id, null::json as state, ${inMs} - r.ahead_ms as due_in_ms
    from ${recordset('kinds', 'kind text, ahead_ms float8')} cross join ${firstOf(sql`r.kind`, noGroup)}
    ${sql.join(grouped)}`),
  )
  return (connection: Connection, withinMs: number) =>
    selectDue(connection, {
      kinds: JSON.stringify(others.map((each) => ({ kind: each.name, ahead_ms: getAhead(each) }))),
      withinMs,
    })
}

/** Sets the columns of a claim. The time is that of a CTE, because Citus accepts no such addition in SET. */
const setClaim = sql`${toNames(attempts)} = ${attempts} + 1, ${toNames(claim_id)} = ${placeholder('claimId')}::uuid,
  ${toNames(next_attempt_at)} = due.until, ${revise}`
const claimed = sql.join(
  [id, kind, key, payload, claim_id, attempts, work.created_at, sql`${group} as ${sql.identifier('group')}`],
  sql`, `,
)
const until = sql`statement_timestamp() + ${milliseconds('r.ahead_ms + r.lease_ms')} as until`

const claimRows = prepareAdaptive((db) =>
  db.execute<ClaimedWork>(sql`with found as (
      select found.*, ${until} from ${recordset('wanted', 'kind text, id uuid, count bigint, ahead_ms float8, lease_ms float8')}
      cross join lateral (
        select ${id}, ${bytes} from ${work}
        where ${kind} = r.kind and ${group} = r.id
          and ${next_attempt_at} <= now() + ${milliseconds('r.ahead_ms')}
        order by ${next_attempt_at} limit r.count for update skip locked
      ) as found
    ), due as (
      select id, until from (
        select found.id, found.until, sum(bytes) over (order by bytes, found.id) - bytes as bytes_before from found
      ) as sized where bytes_before < ${sql.raw(String(MAX_BYTES))}
    ) update ${work} set ${setClaim} from due where ${id} = due.id returning ${claimed}`),
)

interface Wanted {
  kind: WorkKind
  /** The group. */
  id: string
  count: number
}

/**
 * Claims due rows: counts an attempt of each, and keeps other processes from it until the lease ends. Those that read the
 * fewest bytes come first, and the first one beyond 8 MiB is the last; the others stay due.
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
  is_uncounted boolean, is_removed boolean, code bigint, text text, duration_ms bigint`

/** A claim that is given back leaves what the attempt before it has stored. */
const keepUnlessEnded = (column: PgColumn, value: string) =>
  sql`${toNames(column)} = case when r.has_ended then ${sql.raw(value)} else ${column} end`

/**
 * Only of the attempt that was claimed: after its lease, another process may have begun the next one. A row that was ended
 * during the attempt by other statements gets the result all the same.
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
        ${keepUnlessEnded(code, 'r.code')},
        ${keepUnlessEnded(text, 'r.text')},
        ${keepUnlessEnded(duration_ms, 'r.duration_ms')},
        ${toNames(succeeded_at)} = case when r.status = 'succeeded' then clock.now end, ${revise}
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
    has_ended: result.error !== undefined || result.outcome !== undefined,
    error: result.error,
    ...{ is_uncounted: result.isUncounted, is_removed: result.isRemoved },
    ...{ code: result.outcome?.code, text: result.outcome?.text, duration_ms: result.outcome?.durationMs },
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
    from ${work} where ${isCounted(kind)} group by ${kind}`),
)

/** Counts the rows of all kinds that are counted: 200,000 take a tenth of a second. */
export const readStates = (connection: Connection): Promise<WorkState[]> => selectStates(connection)

/** Creates the function that deletes the rows of a kind after so many days. */
export const createWorkPruning = ({ name, deletesWaiting }: WorkKind, days: number) =>
  createPruning({
    table: work,
    column: id,
    until: getUuidBefore(days),
    where: sql`${kind} = ${toLiteral(name)}${deletesWaiting ? sql`` : sql` and ${next_attempt_at} is null`}`,
  })

/** Returns how many seconds the oldest row of a kind has waited; 0 if none waits, -1 without a state. */
export function getWaitSeconds(state: WorkState | undefined): number {
  if (!state) return -1
  return state.oldest_ms === null ? 0 : (Date.now() - state.oldest_ms) / 1000
}
