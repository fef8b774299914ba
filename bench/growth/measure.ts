/** One database: each request's time over HTTP, and what its statements touch. */
import type { AddressInfo } from 'node:net'
import postgres from 'postgres'
import { v7 as uuid } from 'uuid'
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { migrate } from '../../drizzle/migrate.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import type { ResolvedResource } from '../../plugins/collection/resolve.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { settings } from '../targets/ours.ts'
import { send } from '../targets/target.ts'
import { costOf } from './cost.ts'
import { draw, type Sample } from './samples.ts'
import { beforeCursor, type Shape, shapesOf, withCursor } from './shapes.ts'
import { type Watch, watch } from './watched.ts'

export interface Measured {
  actor: 'admin' | 'member'
  collection: string
  label: string
  isFlat: boolean
  status: number
  /** Of the whole request, as the client sees it. */
  milliseconds: number
  /** Of all its statements; undefined where one takes longer than a statement may. */
  buffers: number | undefined
  ways: readonly string[]
}

const REQUESTS = 15
/** Milliseconds beyond which three requests tell enough. */
const LONG = 1_000

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

async function keyOf(database: Database, userId: string): Promise<string> {
  const key = makeKey()
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'growth', $3, $4, '["*"]', now() + interval '1 day')`,
    [uuid(), userId, getKeyPrefix(key), hashKey(key)],
  )
  return key
}

type Ask = (path: string) => ReturnType<typeof send>

/** @returns undefined where the actor may not ask, or the list is too short to be read on */
async function measureShape(shape: Shape, ask: Ask, { moveTo, take }: Watch, explained: postgres.Sql) {
  const { label, isFlat = false } = shape
  const [first] = shape.variants
  if (!first) return undefined
  const before = beforeCursor(first.path)
  moveTo(undefined)
  const opening = before === undefined ? undefined : await ask(before)
  if (opening && opening.status !== 200) return undefined
  const cursor = opening && JSON.parse(opening.text).pagination.cursor
  if (cursor === null) return undefined
  const variants = shape.variants.map(({ path, position }) => ({
    path: withCursor(path, cursor ?? ''),
    position,
  }))

  const times: number[] = []
  const statements = []
  let status = 0
  // Twice: what is prepared in the first round is not measured.
  for (let i = -variants.length; i < REQUESTS; i++) {
    const variant = variants[(i + variants.length) % variants.length] ?? first
    moveTo(variant.position)
    take()
    const began = performance.now()
    const reply = await ask(variant.path)
    const taken = performance.now() - began
    status = reply.status
    if (status === 403 || status === 404) return undefined
    if (status !== 200 && status !== 503) throw new Error(`${variant.path}: ${reply.text}`)
    if (i < 0) statements.push(take())
    if (i >= 0 || taken > LONG) times.push(taken)
    if (taken > LONG && times.length >= 3) break
  }
  moveTo(undefined)

  let buffers: number | undefined = 0
  const ways: string[] = []
  const [pattern = []] = statements
  for (const [i, { text }] of pattern.entries()) {
    const same = statements.flatMap((all) => (all[i]?.text === text ? [all[i]] : []))
    const costs = await costOf(explained, same)
    const middle = costs && median(costs.map((cost) => cost.buffers))
    buffers = buffers === undefined || middle === undefined ? undefined : buffers + middle
    ways.push(...(costs?.[0]?.ways ?? []))
  }
  return { label, isFlat, status, milliseconds: median(times) ?? 0, buffers, ways }
}

async function measureAll(
  base: string,
  resources: readonly ResolvedResource[],
  sample: Sample,
  keys: Readonly<Record<Measured['actor'], string>>,
  watching: Watch,
  explained: postgres.Sql,
): Promise<Measured[]> {
  const found: Measured[] = []
  for (const actor of ['admin', 'member'] as const) {
    const ask: Ask = (path) =>
      send(base, { method: 'GET', path: `/api/v1${path}`, headers: { 'x-api-key': keys[actor] } })
    for (const resource of resources) {
      for (const shape of shapesOf(resource, sample, actor === 'member')) {
        const measured = await measureShape(shape, ask, watching, explained)
        if (!measured) continue
        found.push({ actor, collection: resource.name, ...measured })
        console.log(
          `${actor} ${resource.name} ${measured.label}: ${measured.buffers ?? '-'} buffers, ` +
            `${measured.milliseconds.toFixed(1)} ms, ${measured.status}, ${measured.ways.join(', ')}`,
        )
      }
    }
  }
  return found
}

/** Starts the app over the database at `url`, and asks it everything. */
export async function measureGrowth(
  url: string,
  resources: readonly ResolvedResource[],
): Promise<Measured[]> {
  const config = readConfig({ ...settings, NODE_ENV: 'production', DATABASE_URL: url, LOG_LEVEL: 'error' })
  const database = await openDatabase({ url, poolSize: 2 })
  const slow = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  await migrate(slow)
  const sample = await draw(slow, resources).finally(() => slow.close())
  const keys = {
    admin: await keyOf(database, sample.adminId),
    member: await keyOf(database, sample.memberId),
  }
  const watching = watch(database)
  const app = await buildApp(config, { database: watching.watched })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const explained = postgres(url, { max: 1, connection: { TimeZone: 'UTC', statement_timeout: 5_000 } })
  try {
    const { port } = app.server.address() as AddressInfo
    return await measureAll(`http://127.0.0.1:${port}`, resources, sample, keys, watching, explained)
  } finally {
    await explained.end()
    await app.close()
  }
}
