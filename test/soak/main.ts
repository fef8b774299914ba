/** `npm run soak`: what takes minutes and is no part of `npm test`; it prints its figures, and fails where a promise does not hold. */
import { createDatabase, type Owner, testFolder } from '../helpers/database.ts'
import { run } from '../helpers/process.ts'
import { type KillReport, killRounds } from './kill.ts'

/** `npm run soak` needs a server that it may make databases on; without, it says what it left out. */
const SERVER = process.env.DATABASE_URL || 'postgres://root@127.0.0.1:5432/postgres'
const ROUNDS = 20
const SEEDED = '10000'

/** What was begun is undone, the last first, whatever happened. */
async function owning(work: (t: Owner) => Promise<void>): Promise<void> {
  const undone: (() => unknown)[] = []
  try {
    await work({ teardown: (undo) => undone.push(undo) })
  } finally {
    for (const undo of undone.reverse()) await undo()
  }
}

function print(title: string, { restarts, lost, ...counts }: KillReport): void {
  const sorted = restarts.map(Math.round).sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]
  console.log(
    `${title}: ${restarts.length} kills; ${counts.acknowledged} writes acknowledged, ${lost.length} of them lost;` +
      ` ${counts.inDoubt} in doubt, ${counts.refused} refused;` +
      ` restart ${at(0)} / ${at(0.5)} / ${at(1)} ms (least, median, most)` +
      (counts.intruders > 0 ? `; ${counts.intruders} second processes refused by name` : ''),
  )
  for (const line of lost.slice(0, 20)) console.log(`  ${line}`)
  if (lost.length > 0) process.exitCode = 1
}

const common = { rounds: ROUNDS, clients: 8, file: 'server.js', onRound: console.log }

console.log(`kill -9 of a server amid the writes of 8 clients, ${ROUNDS} times, on the embedded database`)
await owning(async (t) => {
  const settings = { DATA_DIR: testFolder(t) }
  const intrude = (round: number) => round % 5 === 0
  print('embedded', await killRounds(t, { ...common, settings, intrude, between: [300, 2_000] }))
})

console.log(`the same on PostgreSQL, whose own server stays`)
await owning(async (t) => {
  const DATABASE_URL = await createDatabase(t, SERVER)
  const settings = { DATA_DIR: testFolder(t), DATABASE_URL }
  print('PostgreSQL', await killRounds(t, { ...common, settings, between: [300, 2_000] }))
}).catch(missing)

console.log(`npm run seed -- --users ${SEEDED}, on PostgreSQL`)
await owning(async (t) => {
  const DATABASE_URL = await createDatabase(t, SERVER)
  const { ended, said } = run(t, 'cli.js', { DATA_DIR: testFolder(t), DATABASE_URL }, [
    'seed',
    '--users',
    SEEDED,
  ])
  const { code } = await ended
  console.log(code === 0 ? said.out.trim().split('\n').at(-1) : said.err)
  if (code !== 0) process.exitCode = 1
}).catch(missing)

/** No server where none was named is no failure, but it is said. */
function missing(error: unknown): void {
  if (process.env.DATABASE_URL || !(error instanceof Error) || error.name !== 'DatabaseUnavailable')
    throw error
  console.log('  left out: set DATABASE_URL to a PostgreSQL on which databases may be made')
}
