/**
 * `npm run bench:aggregates`: compares an aggregate of 100,000 orders by status with the same statement in psql, in turns.
 * Needs DATABASE_URL of a PostgreSQL server, and psql.
 */
import { execFileSync } from 'node:child_process'
import { openDatabase } from '../packages/database/src/client/index.ts'
import { readConfig } from '../packages/http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, createClient } from '../packages/testing/helpers/app.ts'
import { testDatabaseUrl } from '../packages/testing/helpers/database.ts'
import { WITHOUT_LIMITS } from '../packages/testing/helpers/process.ts'
import { buildApp } from '../src/app.ts'
import { printFigures } from './goals.ts'
import { computeSpread } from './statistics.ts'

const ROWS = 100_000
const ROUNDS = 15
/** Of one round. */
const REPETITIONS = 20
const GOAL = 1.2
const STATEMENT = 'select status, count(*), sum(total_amount) from orders group by 1 order by 1 limit 1001;'
const PATH = '/orders/aggregates?measures=count,sum:total_amount&group_by=status'

const getMedian = (times: readonly number[]) => computeSpread(times).median

/** Returns the milliseconds that psql reports of each repetition. */
function runPsql(url: string): number {
  const input = `\\timing on\n${`${STATEMENT}\n`.repeat(REPETITIONS)}`
  const output = execFileSync('psql', ['-X', '-d', url], { input, encoding: 'utf8' })
  return getMedian([...output.matchAll(/^Time: ([\d.]+) ms/gm)].map(([, time]) => Number(time)))
}

async function runRequests(base: string): Promise<number> {
  const client = createClient(base, { 'x-api-key': ADMIN_KEY })
  const times: number[] = []
  for (let i = 0; i < REPETITIONS; i++) {
    const before = performance.now()
    const { status, text } = await client.get(PATH)
    if (status !== 200) throw new Error(text)
    times.push(performance.now() - before)
  }
  return getMedian(times)
}

const teardowns: (() => unknown)[] = []
try {
  const { url = '' } = await testDatabaseUrl({ teardown: (undo) => void teardowns.unshift(undo) })
  const database = await openDatabase({ url })
  const settings = {
    ...WITHOUT_LIMITS,
    APP_SECRET,
    ADMIN_API_KEY: ADMIN_KEY,
    NODE_ENV: 'test',
    LOG_LEVEL: 'silent',
  }
  const app = await buildApp(readConfig({ ...settings, EVENTS: 'false' }), { database })
  teardowns.unshift(() => app.close())
  await database.run(`insert into orders (id, user_id, items, currency, total_amount, status)
    select gen_random_uuid(), u.id, '[]', 'USD', n % 3000,
      (array['pending','paid','shipped','completed','cancelled','refunded'])[1 + n % 6]
    from (select id from users limit 1) u, generate_series(1, ${ROWS}) n`)
  await database.run('vacuum analyze orders')
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  const address = new URL(url)
  address.search = ''
  runPsql(address.href)
  await runRequests(base)
  const rounds: { psql: number; api: number }[] = []
  for (let i = 0; i < ROUNDS; i++) rounds.push({ psql: runPsql(address.href), api: await runRequests(base) })
  const { median, min, max } = computeSpread(rounds.map(({ psql, api }) => api / psql))
  const format = (kind: 'psql' | 'api') => `${getMedian(rounds.map((each) => each[kind])).toFixed(1)} ms`
  const value = `${format('api')} by HTTP, ${format('psql')} in psql, ${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`
  const goal = [`at most ${GOAL}`, median <= GOAL] as const
  if (!printFigures('Time', [{ name: `${ROWS} orders by status`, value, goal }])) process.exitCode = 1
} finally {
  for (const undo of teardowns) await undo()
}
