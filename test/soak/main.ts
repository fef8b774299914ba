/**
 * `npm run soak -- [--kills N] [part ...]`: runs tests that take minutes, prints their results and fails if a guarantee is
 * broken.
 */
import { parseArgs } from 'node:util'
import { createDatabase, type Owner, testFolder } from '../helpers/database.ts'
import { startModule } from '../helpers/process.ts'
import { crashRounds } from './crash.ts'
import { eventRounds } from './events.ts'
import { hostileRequests } from './hostile.ts'
import { attackAsMember } from './hostile-member.ts'
import { killRounds } from './kill.ts'
import { outages as runOutages } from './outages.ts'
import { measureOverload } from './overload.ts'
import { wrongPasswords } from './passwords.ts'
import {
  printCrashes,
  printEvents,
  printHostile,
  printHostileMember,
  printKills,
  printOutage,
  printOverload,
  printPasswords,
  printReplicaPhase,
  printReplicas,
  printRestarts,
  printSlowEndpoints,
  printSlowSockets,
} from './print-reports.ts'
import { findMissingProgram } from './replica-backends.ts'
import { standbySoak } from './replicas.ts'
import { rollingRestarts } from './restarts.ts'
import { measureSlowSockets } from './slow.ts'
import { measureSlowEndpoints } from './slow-endpoints.ts'

/** The PostgreSQL server on which databases are created. */
const SERVER = process.env.DATABASE_URL || 'postgres://root@127.0.0.1:5432/postgres'
/** The module to run: the build. */
const SERVER_MODULE = 'server.js'
const DEFAULT_KILLS = '20'
const KILL_CLIENTS = 8
const CRASH_CLIENTS = 64
const EVENT_WRITERS = 12
const SEEDED_USERS = '10000'
const PASSWORD_ATTEMPTS = 1_000
const PASSWORD_CLIENTS = 32
const RESTARTS = 20
const RESTART_CLIENTS = 16
const OUTAGE_CLIENTS = 8
/** Three kinds: about a thousand sockets in all. */
const SLOW_SOCKETS_PER_KIND = 334
const LONG_PHASE_SECONDS = 60
const SLOW_ENDPOINTS = { slow: 100, dead: 20, seconds: 300 }

const { values: flags, positionals } = parseArgs({
  options: { kills: { type: 'string', default: DEFAULT_KILLS } },
  allowPositionals: true,
})
/** Of each part that kills. */
const killCount = Number(flags.kills)

/** Runs `work` and then its teardown functions, last first, also after an error. */
async function withTeardown(work: (t: Owner) => Promise<void>): Promise<void> {
  const teardowns: (() => unknown)[] = []
  try {
    await work({ teardown: (undo) => teardowns.push(undo) })
  } finally {
    for (const undo of teardowns.reverse()) await undo()
  }
}

/**
 * Runs `work` with a new database on the server.
 * Prints that the part is skipped if DATABASE_URL is not set and the default server is not available.
 */
const withDatabase = (work: (t: Owner, settings: NodeJS.ProcessEnv) => Promise<void>): Promise<void> =>
  withTeardown(async (t) => {
    const DATABASE_URL = await createDatabase(t, SERVER)
    await work(t, { DATA_DIR: testFolder(t), DATABASE_URL })
  }).catch((error: unknown) => {
    if (process.env.DATABASE_URL || !(error instanceof Error) || error.name !== 'DatabaseUnavailable')
      throw error
    console.log('  skipped: set DATABASE_URL to a PostgreSQL on which databases may be created')
  })

async function kill(): Promise<void> {
  const common = { rounds: killCount, clients: KILL_CLIENTS, file: SERVER_MODULE, onRound: console.log }
  const between = [300, 2_000] as const
  console.log(
    `kill -9 of a server while ${KILL_CLIENTS} clients write, ${killCount} times, embedded database`,
  )
  await withTeardown(async (t) => {
    const settings = { DATA_DIR: testFolder(t) }
    const intrude = (round: number) => round % 5 === 0
    printKills('embedded', await killRounds(t, { ...common, settings, intrude, between }))
  })
  console.log('the same on PostgreSQL, which keeps running')
  await withDatabase(async (t, settings) =>
    printKills('PostgreSQL', await killRounds(t, { ...common, settings, between })),
  )
}

async function crash(): Promise<void> {
  console.log(`kill -9 of PostgreSQL while ${CRASH_CLIENTS} clients write with keys, ${killCount} times`)
  await withTeardown(async (t) => {
    const report = await crashRounds(t, {
      ...{ rounds: killCount, clients: CRASH_CLIENTS, file: SERVER_MODULE, onRound: console.log },
      settings: { DATA_DIR: testFolder(t) },
      between: [500, 1_500],
    })
    if (report) printCrashes(report)
    else console.log('  skipped: PostgreSQL is not installed')
  })
}

async function events(): Promise<void> {
  console.log(
    `kill -9 of one of two servers and of PostgreSQL in turn while ${EVENT_WRITERS} clients write, ${killCount} times; events`,
  )
  await withTeardown(async (t) => {
    const report = await eventRounds(t, {
      ...{ rounds: killCount, clients: EVENT_WRITERS, file: SERVER_MODULE, onRound: console.log },
      settings: { DATA_DIR: testFolder(t) },
      between: [1_000, 3_000],
    })
    if (report) printEvents(report)
    else console.log('  skipped: PostgreSQL is not installed')
  })
}

async function seed(): Promise<void> {
  console.log(`npm run seed -- --users ${SEEDED_USERS}, PostgreSQL`)
  await withDatabase(async (t, settings) => {
    const { ended, output } = startModule(t, 'cli.js', settings, ['seed', '--users', SEEDED_USERS])
    const { code } = await ended
    console.log(code === 0 ? output.out.trim().split('\n').at(-1) : output.err)
    if (code !== 0) process.exitCode = 1
  })
}

async function passwords(): Promise<void> {
  const common = {
    ...{ attempts: PASSWORD_ATTEMPTS, clients: PASSWORD_CLIENTS, pairs: 300 },
    ...{ file: SERVER_MODULE, rest: 5_000 },
  }
  const title = `${PASSWORD_ATTEMPTS} wrong passwords, ${PASSWORD_CLIENTS} concurrently`
  console.log(`${title}, PostgreSQL; ms: mean / p50 / p99 / max`)
  await withDatabase(async (t, settings) => printPasswords(await wrongPasswords(t, { ...common, settings })))
  console.log(`${title}, embedded database`)
  await withTeardown(async (t) =>
    printPasswords(await wrongPasswords(t, { ...common, settings: { DATA_DIR: testFolder(t) } })),
  )
}

async function restarts(): Promise<void> {
  console.log(
    `two servers behind a load balancer, ${RESTARTS} restarts in turn, ${RESTART_CLIENTS} clients, PostgreSQL`,
  )
  const load = { restarts: RESTARTS, clients: RESTART_CLIENTS, pause: 10, delay: 1_000, file: SERVER_MODULE }
  await withDatabase(async (t, settings) => printRestarts(await rollingRestarts(t, { ...load, settings })))
}

async function outages(): Promise<void> {
  console.log(`a PostgreSQL that is restarted, killed and frozen under the load of ${OUTAGE_CLIENTS} clients`)
  const options = { file: SERVER_MODULE, clients: OUTAGE_CLIENTS, onOutage: printOutage }
  await withTeardown((t) => runOutages(t, options))
}

async function overload(): Promise<void> {
  console.log('twice the capacity for a minute, open loop, PostgreSQL; responses (ms: p50 / p99 / max)')
  const load = { file: SERVER_MODULE, times: 2, seconds: LONG_PHASE_SECONDS }
  await withDatabase(async (t, settings) => printOverload(await measureOverload(t, { ...load, settings })))
}

async function slow(): Promise<void> {
  console.log(
    `${SLOW_SOCKETS_PER_KIND * 3} slow sockets (header sections, bodies, readers), PostgreSQL; responses (ms: p50 / p99 / max)`,
  )
  const options = { file: SERVER_MODULE, each: SLOW_SOCKETS_PER_KIND }
  await withDatabase(async (t, settings) =>
    printSlowSockets(await measureSlowSockets(t, { ...options, settings }), SLOW_SOCKETS_PER_KIND),
  )
}

async function webhooks(): Promise<void> {
  const { slow: slowCount, dead, seconds } = SLOW_ENDPOINTS
  console.log(
    `${slowCount} webhook endpoints that answer after 9.9 s, ${dead} that never do, a quick one for ${seconds} s, PostgreSQL`,
  )
  await withDatabase(async (t, settings) =>
    printSlowEndpoints(await measureSlowEndpoints(t, { ...SLOW_ENDPOINTS, settings, file: SERVER_MODULE })),
  )
}

async function hostile(): Promise<void> {
  const seconds = LONG_PHASE_SECONDS
  console.log('expensive requests of at most 1 MiB for a minute, PostgreSQL; ms')
  await withDatabase(async (t, settings) => printHostile(await hostileRequests(t, { settings, seconds })))
  console.log('one member within the default limits and ten other users, a minute per attack; ms')
  await withDatabase(async (t, settings) =>
    printHostileMember(await attackAsMember(t, { settings, file: SERVER_MODULE, seconds })),
  )
}

async function replicas(): Promise<void> {
  console.log('two servers behind haproxy, with Redis, PostgreSQL and a standby that is killed and paused')
  const missing = findMissingProgram()
  if (missing !== undefined) {
    console.log(`  skipped: ${missing} is not installed (apt-get install ${missing})`)
    return
  }
  await withTeardown(async (t) => {
    const options = { file: SERVER_MODULE, writers: 8, phase: 8, onPhase: printReplicaPhase }
    const report = await standbySoak(t, options)
    if (report) printReplicas(report)
    else console.log('  skipped: PostgreSQL is not installed')
  })
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  kill,
  crash,
  events,
  seed,
  passwords,
  restarts,
  outages,
  overload,
  slow,
  webhooks,
  hostile,
  replicas,
}

const names = positionals.length > 0 ? positionals : Object.keys(parts)
const selected = names.map((name) => Object.hasOwn(parts, name) && parts[name])
if (selected.includes(false) || !Number.isSafeInteger(killCount)) {
  console.error(`npm run soak -- [--kills N] [part ...]; the parts are ${Object.keys(parts).join(', ')}`)
  process.exitCode = 2
} else {
  for (const part of selected) if (part) await part()
}
