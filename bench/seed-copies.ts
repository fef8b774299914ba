/** Seeds a database on the server of DATABASE_URL, and makes a copy of it for each name: `seed-copies.ts ours reference`. */
import { copyDatabase, ensureSeeded } from './database.ts'

const url = new URL(process.env.DATABASE_URL ?? '')
const server = url.href.slice(0, -url.pathname.length)
const TEMPLATE = 'seed'

await ensureSeeded(`${server}/${TEMPLATE}`, Number(process.env.BENCH_USERS ?? 10_000))
for (const name of process.argv.slice(2)) {
  await copyDatabase(server, TEMPLATE, name)
  console.log(`The database ${name} is ready`)
}
