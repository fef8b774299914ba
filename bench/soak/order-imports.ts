/** Imports orders of a few products as one member, again and again, while other users order and change the same products. */
import '../../drizzle/index.ts'
import { setTimeout as wait } from 'node:timers/promises'
import { withDatabase } from '@resource-api/cli'
import { request } from 'undici'
import { readConfig } from '../../packages/http/src/config/read-config.ts'
import { ADMIN_KEY } from '../../packages/testing/helpers/app.ts'
import { type Owner, testFolder } from '../../packages/testing/helpers/database.ts'
import { NDJSON } from '../../packages/testing/helpers/imports.ts'
import { startServer } from '../../packages/testing/helpers/process.ts'
import { startFlags } from '../start-flags.ts'
import { createRequest, runLoad } from './load.ts'
import { formatCells, printViolations } from './report.ts'
import { createDatabaseSettings, createMember, SETTINGS } from './server.ts'

/** Of each import, and of the quiet phase. */
const SECONDS = 20
const PRODUCT_COUNT = 5
const STOCK = 1_000_000_000
const OTHER_USER_COUNT = 10
/** Requests per second of all other users together. */
const OTHERS_RATE = 20
/** Milliseconds of the p99 of other users. */
const MAX_DELAY_MS = 2_000
/** Before an import is sent again that was refused at once. */
const PAUSE_MS = 500

/** Creates products, the member who imports, and the requests of others. */
const prepare = (settings: NodeJS.ProcessEnv) =>
  withDatabase(readConfig({ ...SETTINGS, ...settings }), async (database) => {
    const products = await database.run(
      `insert into products (id, sku, name, price_amount, stock, status, search)
       select gen_random_uuid(), 'S-' || n, 'Product', 100, $1::bigint, 'active', '' from generate_series(1, $2::integer) n
       returning id`,
      [STOCK, PRODUCT_COUNT],
    )
    const items = products.map(({ id }) => ({ product_id: id, quantity: 1 }))
    const requests = []
    for (let i = 0; i < OTHER_USER_COUNT; i++) {
      const { headers } = await createMember(database)
      requests.push(
        ...items.flatMap((item) => [
          createRequest('POST', '/orders', { headers, body: { items: [item] } }),
          createRequest('GET', `/products/${item.product_id}`, { headers }),
        ]),
      )
    }
    const changes = items.map(({ product_id }, i) =>
      createRequest('PATCH', `/products/${product_id}`, {
        headers: { 'x-api-key': ADMIN_KEY },
        body: { name: `Product ${i}` },
      }),
    )
    return { member: await createMember(database), requests: [...requests, ...changes], items }
  })

/** @returns how often each status came */
async function importRepeatedly(
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {}
  for (const end = performance.now() + SECONDS * 1_000; performance.now() < end; ) {
    const outcome = await request(url, { method: 'POST', headers: { ...headers, ...NDJSON }, body }).then(
      async (response) => {
        await response.body.dump({ limit: Number.POSITIVE_INFINITY })
        return String(response.statusCode)
      },
      // Of a refused body, the server discards 4 MiB and then closes the connection.
      () => 'closed',
    )
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    if (outcome === '429' || outcome === 'closed') await wait(PAUSE_MS)
  }
  return outcomes
}

export async function importOrders(t: Owner): Promise<void> {
  console.log(
    `one member imports orders of ${PRODUCT_COUNT} products, others order these; ${SECONDS} s each; ms`,
  )
  console.log('  | Database, import | others: responses | p50 | p99 | max | refused | the member received |')
  console.log('  |---|---|---|---|---|---|---|')
  const violations: string[] = []
  for (const [database, rowCount, settings] of [
    ['PostgreSQL', 15_000, await createDatabaseSettings(t)],
    ['embedded', 10_000, { DATA_DIR: testFolder(t) }],
    ['embedded', 1_000, { DATA_DIR: testFolder(t) }],
  ] as const) {
    const { items, member, requests } = await prepare(settings)
    const started = await startServer(
      t,
      { ...SETTINGS, ...settings, LOG_LEVEL: 'warn' },
      'server.ts',
      startFlags,
    )
    const load = { port: Number(new URL(started.url).port), requests, rate: OTHERS_RATE, seconds: SECONDS }
    const body = `${JSON.stringify({ items })}\n`.repeat(rowCount)
    // The first run also warms up: code that is not yet compiled is slow.
    console.log(`  | ${database}, none | ${formatCells((await runLoad(load)).served)} |  |  |`)
    for (const query of ['', '?dry_run=true']) {
      const name = `${database}, ${rowCount} rows${query && ', dry run'}`
      const url = `${started.url}/orders${query}`
      const [others, outcomes] = await Promise.all([
        runLoad(load),
        importRepeatedly(url, member.headers, body),
      ])
      // With 503, 409 or without a response.
      const refused = others.sent - others.served.count
      const statuses = Object.entries(outcomes).map(([status, count]) => `${count} times ${status}`)
      console.log(`  | ${name} | ${formatCells(others.served)} | ${refused} | ${statuses.join(', ')} |`)
      if (others.served.p99 > MAX_DELAY_MS) violations.push(`${name}: a p99 of more than ${MAX_DELAY_MS} ms`)
      if (refused > 0) violations.push(`${name}: ${JSON.stringify(others.outcomes)}`)
    }
    started.child.kill()
    await started.ended
  }
  printViolations(violations)
}
