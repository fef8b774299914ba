/** Kills a server repeatedly while clients write, and compares the events and the rows that are left with the writes. */
import { sql } from 'drizzle-orm'
import type { Database } from '../../packages/database/src/client/types.ts'
import type { Client, Json } from '../../packages/testing/helpers/app.ts'
import { type Owner, openDatabase, testFolder } from '../../packages/testing/helpers/database.ts'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import type { ProcessExit } from '../../packages/testing/helpers/process.ts'
import { readPages } from '../../packages/testing/helpers/replies.ts'
import { type FeedEvent, findHistoryErrors, type StoredRow } from './event-checks.ts'
import {
  createSharedProducts,
  type LoggedWrite,
  readCompleteFeed,
  type WriteOptions,
  writeDuringKills,
} from './event-writer.ts'
import { formatRange, printViolations } from './report.ts'
import { createDatabaseSettings, startSoakServer, waitUntilServed } from './server.ts'

const TYPES = ['users', 'user-profiles', 'posts', 'products', 'orders', 'sessions', 'api-keys']
/** The current revision of each resource. */
const SELECT_ROWS = [...TYPES, 'webhook-endpoints']
  .map((type) => `select '${type}' as resource_type, id, revision from ${type.replace('-', '_')}`)
  .join(' union all ')

/** Reads the resources that have a collection of their own, by their id. */
export async function readResources(client: Client): Promise<Map<string, Json>> {
  const resources = new Map<string, Json>()
  for (const path of ['/products', '/orders', '/users']) {
    for await (const { body } of readPages(client, `${path}?limit=100`)) {
      for (const row of body.data) resources.set(row.id, row)
    }
  }
  return resources
}

/** Reads the rows of all resources. */
export async function readRows(database: Database, resources: ReadonlyMap<string, Json>) {
  const rows = await database.execute<StoredRow>(sql.raw(SELECT_ROWS))
  return rows.map((row) => ({ ...row, data: resources.get(row.id) }))
}

export function countWrites(writes: readonly LoggedWrite[], events: readonly FeedEvent[]) {
  const made = new Set(events.map(({ request_id }) => request_id))
  const count = (outcome: LoggedWrite['outcome']) => writes.filter((each) => each.outcome === outcome).length
  const unknownMade = writes.filter(
    ({ outcome, requestIds }) => outcome === 'unknown' && requestIds.some((id) => made.has(id)),
  )
  return {
    ...{ acknowledged: count('acknowledged'), refused: count('refused'), unknown: count('unknown') },
    // Made, although the client does not know the outcome.
    unknownMade: unknownMade.length,
    // Acknowledged with a stored response.
    replayed: writes.filter(({ isReplayed }) => isReplayed).length,
  }
}

interface KillOptions extends WriteOptions {
  /** The location of the data: `DATA_DIR`, and `DATABASE_URL` for PostgreSQL. */
  settings: NodeJS.ProcessEnv
  /** The signal that ends the server; by default SIGKILL. */
  signal?: NodeJS.Signals
}

async function killRounds(t: Owner, { settings, signal = 'SIGKILL', ...load }: KillOptions) {
  // The writers continue with the server that is started next.
  const withPort = { ...settings, PORT: String(await findFreePort()) }
  let server = await startSoakServer(t, withPort)
  const { admin } = server
  const productIds = await createSharedProducts(admin)
  const setup = await readCompleteFeed(admin)
  const ends: ProcessExit[] = []
  /** Milliseconds from the start of the process to its first response, after each kill. */
  const restarts: number[] = []
  const { logs, otherResponses } = await writeDuringKills(admin, productIds, load, async () => {
    server.child.kill(signal)
    ends.push(await server.ended)
    const startedAt = performance.now()
    server = await startSoakServer(t, withPort)
    await waitUntilServed(admin)
    const restart = performance.now() - startedAt
    restarts.push(restart)
    return `restarted in ${Math.round(restart)} ms`
  })
  const { events, write } = await readCompleteFeed(admin)
  const resources = await readResources(admin)
  server.child.kill()
  await server.ended
  const database = await openDatabase({ url: settings.DATABASE_URL, dataDir: settings.DATA_DIR })
  const rows = await readRows(database, resources).finally(() => database.close())
  const history = { events, setupCount: setup.events.length, rows, logs: [...logs, [write]] }
  const counts = countWrites(logs.flat(), events)
  return { ...counts, otherResponses, ends, restarts, violations: findHistoryErrors(history) }
}

export async function soakKills(t: Owner, rounds: number): Promise<void> {
  for (const [name, settings] of [
    ['embedded database', { DATA_DIR: testFolder(t) }],
    ['PostgreSQL, which keeps running', await createDatabaseSettings(t)],
  ] as const) {
    console.log(`kill -9 of a server while 8 clients write, ${rounds} times, ${name}`)
    const load = { rounds, clients: 8, between: [300, 2_000], onRound: console.log } as const
    const { restarts, violations, ...counts } = await killRounds(t, { settings, ...load })
    console.log(
      `  ${counts.acknowledged} writes acknowledged, ${counts.unknown} in doubt, ${counts.refused} refused;` +
        ` restart ${formatRange(restarts)} ms (min, median, max); ${violations.length} violations`,
    )
    printViolations(violations)
  }
}
