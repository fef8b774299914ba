/** `npm run bench:growth`: measures how the cost of each request grows with the data, as an admin and as a member. */
import '../src/application.ts'
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import postgres from 'postgres'
import { compileResources } from '../packages/resources/src/compile.ts'
import { resources } from '../src/resources.ts'
import { ensureSeeded, startServer, stopServer } from './database.ts'
import { createGrowthReport, type SizeResult } from './growth/growth-report.ts'
import { measureGrowth } from './growth/measure-growth.ts'
import { NOTES } from './growth/notes.ts'

const DEFAULT_USER_COUNTS = '10000,100000,1000000'

const HELP = `npm run bench:growth -- [options]
  --users a,b,c   numbers of users; one database for each, seeded if it is empty (${DEFAULT_USER_COUNTS})
  --out file      the report (bench/GROWTH.md)`

const TABLES = ['users', 'user_profiles', 'posts', 'products', 'orders', 'order_products']

async function measureSize(server: string, users: number): Promise<SizeResult> {
  const url = await ensureSeeded(`${server}/growth_${users}`, users)
  const sql = postgres(url, { max: 1 })
  try {
    // Autovacuum is off here. Index-only scans need the visibility map that VACUUM writes.
    await sql`vacuum (analyze)`
    const requests = await measureGrowth(url, compileResources(resources.map(({ collection }) => collection)))
    const counts = TABLES.map((table) => `(select count(*) from ${table})`).join(' + ')
    const [row] = await sql.unsafe(`select ${counts} as rows, pg_database_size(current_database()) as bytes`)
    return { users, rows: Number(row?.rows), bytes: Number(row?.bytes), requests }
  } finally {
    await sql.end()
  }
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ options: { users: text, out: text, help: { type: 'boolean' } } })
  if (values.help) return console.log(HELP)
  const userCounts = (values.users ?? DEFAULT_USER_COUNTS).split(',').map(Number)
  if (!userCounts.every((count) => Number.isInteger(count) && count > 0)) throw new Error(HELP)
  const { server, version } = await startServer()
  try {
    const sizes: SizeResult[] = []
    for (const users of userCounts) sizes.push(await measureSize(server, users))
    const load = loadavg()[1]?.toFixed(1) ?? '?'
    const report = createGrowthReport(sizes, { version, load, notes: NOTES })
    writeFileSync(values.out ?? 'bench/GROWTH.md', report)
  } finally {
    stopServer()
  }
}

await main()
