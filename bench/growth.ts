/** How cost grows with the data: every request at three sizes, for an admin and a member. */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import postgres from 'postgres'
import { resolveResources } from '../plugins/collection/resolve.ts'
import { resources } from '../src/app.ts'
import { filled, startServer, stopServer } from './database.ts'
import { measureGrowth } from './growth/measure.ts'
import { NOTES } from './growth/notes.ts'
import { type Grown, report } from './growth/report.ts'

const HELP = `npm run bench:growth -- [options]
  --users a,b,c   the sizes; a database each, filled where there is none (10000,100000,1000000)
  --out file      bench/GROWTH.md`

const TABLES = ['users', 'user_profiles', 'posts', 'products', 'orders', 'order_products']

async function grow(server: string, users: number): Promise<Grown> {
  const url = await filled(`${server}/growth_${users}`, users)
  const sql = postgres(url, { max: 1 })
  try {
    // As autovacuum does, which is off here: counts are of indexes alone once it is known which pages all may see.
    await sql`vacuum (analyze)`
    const measured = await measureGrowth(url, resolveResources(resources))
    const counts = TABLES.map((table) => `(select count(*) from ${table})`).join(' + ')
    const [row] = await sql.unsafe(`select ${counts} as rows, pg_database_size(current_database()) as bytes`)
    return { users, rows: Number(row?.rows), bytes: Number(row?.bytes), measured }
  } finally {
    await sql.end()
  }
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ options: { users: text, out: text, help: { type: 'boolean' } } })
  if (values.help) return console.log(HELP)
  const sizes = (values.users ?? '10000,100000,1000000').split(',').map(Number)
  if (!sizes.every((size) => Number.isInteger(size) && size > 0)) throw new Error(HELP)
  const { server, version } = await startServer()
  try {
    const grown: Grown[] = []
    for (const users of sizes) grown.push(await grow(server, users))
    const load = loadavg()[1]?.toFixed(1) ?? '?'
    writeFileSync(values.out ?? 'bench/GROWTH.md', report(grown, { version, load, notes: NOTES }))
  } finally {
    stopServer()
  }
}

await main()
