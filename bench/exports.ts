/** Measures an export of many products, compared with `copy` of `psql`, and the memory that it takes. */
import { execFileSync } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import type { BenchContext } from './command.ts'
import type { Sql } from './database.ts'
import { printFigures } from './goals.ts'
import { readPeakMemory, readResidentMemory, resetPeakMemory } from './memory.ts'
import { computeSpread } from './statistics.ts'
import { FIRST_PORT, startTarget } from './target-process.ts'
import { PREFIX, serviceWithKey } from './targets/resource-api.ts'

const SELECT = `select id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at
  from products order by created_at desc, id desc`
const TYPES = { NDJSON: 'application/x-ndjson', CSV: 'text/csv' }
/** Of the rate of copy, for NDJSON. */
const RATE_GOAL = 0.35
const MEMORY_GOAL_MB = 60
const IDLE_MS = 2_000

async function fill(sql: Sql, rows: number): Promise<void> {
  await sql`insert into products (id, sku, name, description, price_amount, status, search, created_at)
    select gen_random_uuid(), 'BENCH-' || n, 'Product ' || n, repeat('text ', 20), n % 10000, 'active', '',
      now() - n * interval '1 second'
    from generate_series(1, ${rows}::integer - (select count(*)::integer from products)) as n`
  await sql`vacuum (analyze) products`
}

/** Runs a command of the shell whose lines `wc` counts. @returns seconds */
function time(command: string, env: NodeJS.ProcessEnv, rows: number): number {
  const begun = performance.now()
  const lines = execFileSync('bash', ['-c', `set -o pipefail; ${command} | wc -l`], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
  })
  if (Number(lines) < rows) throw new Error(`${command} printed ${lines} lines`)
  return (performance.now() - begun) / 1000
}

/** Measures exports in several rounds. @returns whether they meet the goals */
export async function measureExports({ database, options }: BenchContext): Promise<boolean> {
  const { rounds: count, rows } = options
  const copied = await database.copy('bench_exports')
  await fill(copied.sql, rows)
  const context = { database: copied, options }
  const target = await startTarget(context, serviceWithKey, FIRST_PORT, { name: 'exports', etags: false })
  try {
    const [[header, key] = []] = Object.entries(target.headers)
    const url = `${target.base}${PREFIX}/products`
    const readExport = (type: keyof typeof TYPES) =>
      time(
        `curl --fail --silent --no-buffer -H "${header}: $KEY" -H "Accept: ${TYPES[type]}" "${url}"`,
        { KEY: key },
        rows,
      )
    // The first one compiles the statements and the serializer.
    readExport('NDJSON')
    await wait(IDLE_MS)
    const idle = readResidentMemory(target.pid)
    resetPeakMemory(target.pid)
    const rounds: { copy: number; NDJSON: number; CSV: number }[] = []
    for (let i = 0; i < count; i += 1) {
      rounds.push({
        copy: time(`psql "$URL" -qc "copy (${SELECT}) to stdout"`, { URL: copied.url }, rows),
        NDJSON: readExport('NDJSON'),
        CSV: readExport('CSV'),
      })
    }
    const memory = readPeakMemory(target.pid) - idle
    const formatRate = (type: keyof (typeof rounds)[number]) =>
      `${Math.round(rows / computeSpread(rounds.map((round) => round[type])).median).toLocaleString('en')} rows/s`
    const getRatio = (type: keyof typeof TYPES) =>
      computeSpread(rounds.map((round) => round.copy / round[type]))
    const formatType = (type: keyof typeof TYPES) => {
      const { median, min, max } = getRatio(type)
      return `${formatRate(type)}, ${median.toFixed(2)} of copy (${min.toFixed(2)} to ${max.toFixed(2)})`
    }
    const isFastEnough = getRatio('NDJSON').median >= RATE_GOAL
    return printFigures(`Export of ${rows.toLocaleString('en')} products, ${count} rounds`, [
      { name: 'copy', value: formatRate('copy') },
      { name: 'NDJSON', value: formatType('NDJSON'), goal: [`${RATE_GOAL} of copy`, isFastEnough] },
      { name: 'CSV', value: formatType('CSV') },
      {
        name: 'Memory',
        value: `${memory.toFixed()} MB above ${idle.toFixed()}`,
        goal: [`at most ${MEMORY_GOAL_MB} MB`, memory <= MEMORY_GOAL_MB],
      },
    ])
  } finally {
    await target.stop()
  }
}
