/** Measures the time of each request over HTTP and the pages that its statements touch, for one database. */
import type { AddressInfo } from 'node:net'
import postgres from 'postgres'
import { v7 as uuid } from 'uuid'
import { getKeyPrefix, hashKey, makeKey } from '../../packages/accounts/src/auth/key-format.ts'
import { type Database, openDatabase } from '../../packages/database/src/client/index.ts'
import { migrate } from '../../packages/database/src/migrate.ts'
import { readConfig } from '../../packages/http/src/config/read-config.ts'
import type { Resource } from '../../packages/resources/src/definition/resource.ts'
import { buildApp } from '../../src/app.ts'
import { serverSettings } from '../targets/resource-api.ts'
import { send } from '../targets/target.ts'
import { explainExecutions } from './explain.ts'
import { createRequestKinds, insertCursor, type RequestKind, toFirstPagePath } from './request-kinds.ts'
import { drawSampleValues, type SampleValues } from './sample-values.ts'
import {
  createStatementRecorder,
  type RecordedStatement,
  type StatementRecorder,
} from './statement-recorder.ts'

export interface RequestMeasurement {
  actor: 'admin' | 'member'
  collection: string
  label: string
  hasConstantCost: boolean
  status: number
  /** Milliseconds of the whole request at the client. */
  milliseconds: number
  /** Pages that all statements touch; undefined if one exceeds the statement timeout. */
  buffers: number | undefined
  scans: readonly string[]
}

const TIMED_REQUESTS = 15
/** A request that takes longer is slow: it is sent only SLOW_REQUESTS times. */
const SLOW_REQUEST_MS = 1_000
const SLOW_REQUESTS = 3
const EXPLAIN_TIMEOUT_MS = 5_000

const computeMedian = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

async function createApiKey(database: Database, userId: string): Promise<string> {
  const key = makeKey()
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'growth', $3, $4, '["*"]', now() + interval '1 day')`,
    [uuid(), userId, getKeyPrefix(key), hashKey(key)],
  )
  return key
}

type SendGet = (path: string) => ReturnType<typeof send>

/** Inserts a cursor into the paths of a kind. Returns undefined if the list is not accessible or has one page. */
async function prepareVariants({ variants }: RequestKind, sendGet: SendGet) {
  const firstPagePath = toFirstPagePath(variants[0]?.path ?? '')
  if (firstPagePath === undefined) return variants
  const firstPage = await sendGet(firstPagePath)
  if (firstPage.status !== 200) return undefined
  const { cursor } = JSON.parse(firstPage.text).pagination
  if (cursor === null) return undefined
  return variants.map((variant) => ({ ...variant, path: insertCursor(variant.path, cursor) }))
}

/** Sends the variants in turn. Returns undefined if the actor has no access. */
async function timeRequests(
  variants: RequestKind['variants'],
  sendGet: SendGet,
  { setPosition, take }: StatementRecorder,
) {
  const times: number[] = []
  const statements: RecordedStatement[][] = []
  let status = 0
  // The first round prepares the statements and is not timed, unless it is slow.
  for (let i = -variants.length; i < TIMED_REQUESTS; i++) {
    const variant = variants[(i + variants.length) % variants.length]
    if (!variant) return undefined
    setPosition(variant.position)
    take()
    const startedAt = performance.now()
    const response = await sendGet(variant.path)
    const duration = performance.now() - startedAt
    status = response.status
    if (status === 403 || status === 404) return undefined
    if (status !== 200 && status !== 503) throw new Error(`${variant.path}: ${response.text}`)
    if (i < 0) statements.push(take())
    if (i >= 0 || duration > SLOW_REQUEST_MS) times.push(duration)
    if (duration > SLOW_REQUEST_MS && times.length >= SLOW_REQUESTS) break
  }
  setPosition(undefined)
  return { status, milliseconds: computeMedian(times) ?? 0, statements }
}

/** Explains the statements of the variants. The buffers of a statement are the median over the variants. */
async function explainRequests(sql: postgres.Sql, statements: readonly RecordedStatement[][]) {
  let buffers: number | undefined = 0
  const scans: string[] = []
  const [pattern = []] = statements
  for (const [i, { text }] of pattern.entries()) {
    const executions = statements.flatMap((all) => (all[i]?.text === text ? [all[i]] : []))
    const costs = await explainExecutions(sql, executions)
    const median = costs && computeMedian(costs.map((cost) => cost.buffers))
    buffers = buffers === undefined || median === undefined ? undefined : buffers + median
    scans.push(...(costs?.[0]?.scans ?? []))
  }
  return { buffers, scans }
}

/** Measures a kind of request. Returns undefined if the actor has no access or the list has no second page. */
async function measureKind(
  kind: RequestKind,
  sendGet: SendGet,
  recorder: StatementRecorder,
  explainSql: postgres.Sql,
) {
  const { label, hasConstantCost = false } = kind
  recorder.setPosition(undefined)
  const variants = await prepareVariants(kind, sendGet)
  if (!variants) return undefined
  const timed = await timeRequests(variants, sendGet, recorder)
  if (!timed) return undefined
  const { statements, ...times } = timed
  return { label, hasConstantCost, ...times, ...(await explainRequests(explainSql, statements)) }
}

async function measureAllKinds(
  base: string,
  resources: readonly Resource[],
  sample: SampleValues,
  keys: Readonly<Record<RequestMeasurement['actor'], string>>,
  recorder: StatementRecorder,
  explainSql: postgres.Sql,
): Promise<RequestMeasurement[]> {
  const measurements: RequestMeasurement[] = []
  for (const actor of ['admin', 'member'] as const) {
    const sendGet: SendGet = (path) =>
      send(base, { method: 'GET', path: `/api/v1${path}`, headers: { 'x-api-key': keys[actor] } })
    for (const resource of resources) {
      for (const kind of createRequestKinds(resource, sample, actor === 'member')) {
        const measurement = await measureKind(kind, sendGet, recorder, explainSql)
        if (!measurement) continue
        measurements.push({ actor, collection: resource.name, ...measurement })
        console.log(
          `${actor} ${resource.name} ${measurement.label}: ${measurement.buffers ?? '-'} buffers, ` +
            `${measurement.milliseconds.toFixed(1)} ms, ${measurement.status}, ${measurement.scans.join(', ')}`,
        )
      }
    }
  }
  return measurements
}

/** Starts the app on the database at `url` and measures every kind of request. */
export async function measureGrowth(
  url: string,
  resources: readonly Resource[],
): Promise<RequestMeasurement[]> {
  const config = readConfig({
    ...serverSettings,
    NODE_ENV: 'production',
    DATABASE_URL: url,
    LOG_LEVEL: 'error',
  })
  const database = await openDatabase({ url, poolSize: 2 })
  const withoutTimeout = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  await migrate(withoutTimeout)
  const sample = await drawSampleValues(withoutTimeout, resources).finally(() => withoutTimeout.close())
  const keys = {
    admin: await createApiKey(database, sample.adminId),
    member: await createApiKey(database, sample.memberId),
  }
  const recorder = createStatementRecorder(database)
  const app = await buildApp(config, { database: recorder.recorded })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const explainSql = postgres(url, {
    max: 1,
    connection: { TimeZone: 'UTC', statement_timeout: EXPLAIN_TIMEOUT_MS },
  })
  try {
    const { port } = app.server.address() as AddressInfo
    return await measureAllKinds(`http://127.0.0.1:${port}`, resources, sample, keys, recorder, explainSql)
  } finally {
    await explainSql.end()
    await app.close()
  }
}
