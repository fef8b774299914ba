/**
 * `npm run soak`: checks that take minutes and are not part of `npm test`; prints figures, and fails where a promise
 * is broken.
 */

import type { Delays } from '../helpers/attacks.ts'
import { createDatabase, type Owner, testFolder } from '../helpers/database.ts'
import { startModule } from '../helpers/process.ts'
import { type CrashReport, crashRounds } from './crash.ts'
import { type HostileReport, hostileRequests } from './hostile.ts'
import { attackAsMember, type HostileMemberReport } from './hostile-member.ts'
import { type KillReport, killRounds } from './kill.ts'
import type { Outcome } from './load.ts'
import { type Outage, outages } from './outages.ts'
import { type OverloadReport, overloaded } from './overload.ts'
import { type PasswordsReport, type Phase, type Spread, wrongPasswords } from './passwords.ts'
import { missing, type Phase as ReplicaPhase, standbySoak } from './replicas.ts'
import { rollingRestarts } from './restarts.ts'
import { type SlowReport, slowSockets } from './slow.ts'

/** `npm run soak` needs a server that it may make databases on; without, it says what it left out. */
const SERVER = process.env.DATABASE_URL || 'postgres://root@127.0.0.1:5432/postgres'
const ROUNDS = 20
const SEEDED = '10000'
const ATTEMPTS = 1_000
const RESTARTS = 20
/** Of the capacity: what must be served at least under twice as much. */
const LEAST_SHARE = 0.8
const CLIENTS = 32
/** Slow sockets of each of three kinds: together a thousand and a few. */
const SLOW = 334
/** How many times a healthy client's p99 may be what it is without them. */
const MOST_SLOWED = 2
/** Seconds within which the last slow socket must be gone: those of an answer that is not taken, and a few. */
const MOST_PATIENCE = 35

/** What was begun is undone, the last first, whatever happened. */
async function owning(work: (t: Owner) => Promise<void>): Promise<void> {
  const undone: (() => unknown)[] = []
  try {
    await work({ teardown: (undo) => undone.push(undo) })
  } finally {
    for (const undo of undone.reverse()) await undo()
  }
}

/** Does it on a database of its own on the server. No server where none was named is no failure, but it is said. */
const onServer = (work: (t: Owner, settings: NodeJS.ProcessEnv) => Promise<void>): Promise<void> =>
  owning(async (t) => {
    const DATABASE_URL = await createDatabase(t, SERVER)
    await work(t, { DATA_DIR: testFolder(t), DATABASE_URL })
  }).catch((error: unknown) => {
    if (process.env.DATABASE_URL || !(error instanceof Error) || error.name !== 'DatabaseUnavailable')
      throw error
    console.log('  left out: set DATABASE_URL to a PostgreSQL on which databases may be made')
  })

function printKills(title: string, { restarts, lost, ...counts }: KillReport): void {
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

async function kill(): Promise<void> {
  const common = { rounds: ROUNDS, clients: 8, file: 'server.js', onRound: console.log }
  console.log(`kill -9 of a server amid the writes of 8 clients, ${ROUNDS} times, on the embedded database`)
  await owning(async (t) => {
    const settings = { DATA_DIR: testFolder(t) }
    const intrude = (round: number) => round % 5 === 0
    printKills('embedded', await killRounds(t, { ...common, settings, intrude, between: [300, 2_000] }))
  })
  console.log(`the same on PostgreSQL, whose own server stays`)
  await onServer(async (t, settings) =>
    printKills('PostgreSQL', await killRounds(t, { ...common, settings, between: [300, 2_000] })),
  )
}

function printCrashes({ version, lost, doubled, ...report }: CrashReport): void {
  const spread = (times: readonly number[]) => {
    const sorted = times.map(Math.round).sort((a, b) => a - b)
    return [0, 0.5, 1].map((share) => sorted[Math.floor((sorted.length - 1) * share)]).join(' / ')
  }
  console.log(
    `${version}: ${report.back.length} kills; ${report.acknowledged} writes acknowledged, ${report.replayed} of them` +
      ` by a replay; ${lost.length} lost, ${doubled.length} doubled`,
  )
  console.log(`  replies during the stop: ${JSON.stringify(report.refused)}`)
  console.log(
    `  200 again ${spread(report.back)} ms after the kill (least, median, most),` +
      ` ${spread(report.after)} ms after PostgreSQL answered`,
  )
  for (const line of [...lost, ...doubled].slice(0, 20)) console.log(`  ${line}`)
  const others = Object.keys(report.refused).filter(
    (name) => !/^(?:503|409 RESOURCE_CONFLICT|error)/.test(name),
  )
  if (lost.length + doubled.length + others.length > 0) process.exitCode = 1
}

async function crash(): Promise<void> {
  const writers = 64
  console.log(`kill -9 of PostgreSQL under ${writers} connections of keyed writes, ${ROUNDS} times`)
  await owning(async (t) => {
    const settings = { DATA_DIR: testFolder(t) }
    const common = { rounds: ROUNDS, clients: writers, file: 'server.js', onRound: console.log }
    const report = await crashRounds(t, { ...common, settings, between: [500, 1_500] })
    if (report) printCrashes(report)
    else console.log('  left out: no PostgreSQL is installed on this machine')
  })
}

async function seed(): Promise<void> {
  console.log(`npm run seed -- --users ${SEEDED}, on PostgreSQL`)
  await onServer(async (t, settings) => {
    const { ended, output } = startModule(t, 'cli.js', settings, ['seed', '--users', SEEDED])
    const { code } = await ended
    console.log(code === 0 ? output.out.trim().split('\n').at(-1) : output.err)
    if (code !== 0) process.exitCode = 1
  })
}

const milliseconds = ({ mean, p50, p99, max }: Spread) =>
  [mean, p50, p99, max].map((time) => time.toFixed(1)).join(' / ')

function printPasswords(report: PasswordsReport): void {
  const { idle, alone, attacked, rate, statuses, unknown, wrong } = report
  const row = (title: string, { loop, client }: Phase) =>
    console.log(
      `  ${title}: event loop late by ${milliseconds(loop)}${client ? `; GET ${milliseconds(client)}` : ''}`,
    )
  row('at rest', idle)
  row('a healthy client alone', alone)
  row('with wrong passwords', attacked)
  console.log(`  ${rate.toFixed(0)} wrong passwords a second; answers ${JSON.stringify(statuses)}`)
  console.log(`  one at a time: unknown address ${milliseconds(unknown)}; wrong ${milliseconds(wrong)}`)
  if (Object.keys(statuses).join() !== '401') process.exitCode = 1
}

async function passwords(): Promise<void> {
  const common = { attempts: ATTEMPTS, clients: CLIENTS, pairs: 300, file: 'server.js', rest: 5_000 }
  const title = `${ATTEMPTS} wrong passwords, ${CLIENTS} concurrent`
  console.log(`${title}, on PostgreSQL; ms: mean / p50 / p99 / max`)
  await onServer(async (t, settings) => printPasswords(await wrongPasswords(t, { ...common, settings })))
  console.log(`${title}, on the embedded database`)
  await owning(async (t) =>
    printPasswords(await wrongPasswords(t, { ...common, settings: { DATA_DIR: testFolder(t) } })),
  )
}

async function restarts(): Promise<void> {
  const load = { restarts: RESTARTS, clients: 16, pause: 10, delay: 1_000, file: 'server.js' }
  console.log(
    `two replicas behind a balancer, ${RESTARTS} restarts in turn, ${load.clients} clients, on PostgreSQL`,
  )
  await onServer(async (t, settings) => {
    const { answered, failed, written, lost, times, ends, codes } = await rollingRestarts(t, {
      ...load,
      settings,
    })
    const sorted = [...times].sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]?.toFixed(1)
    console.log(
      `  ${answered} requests answered, ${failed.length} failed; ${written} writes acknowledged, ${lost} lost;` +
        ` ms: ${at(0.5)} / ${at(0.99)} / ${at(1)} (p50, p99, max);` +
        ` ended ${Math.round(Math.min(...ends))} to ${Math.round(Math.max(...ends))} ms after SIGTERM,` +
        ` exit codes ${[...new Set(codes)].join()}`,
    )
    for (const line of failed.slice(0, 20)) console.log(`  ${line}`)
    if (failed.length > 0 || lost > 0 || codes.some((code) => code !== 0)) process.exitCode = 1
  })
}

function printOutage({ name, ...seen }: Outage): void {
  const { answered, refused, broken, written, lost, longest, back } = seen
  console.log(
    `  ${name}: ${answered} answered, ${refused} refused (503), ${broken.length} otherwise; longest ${Math.round(longest)} ms;` +
      ` served again ${Math.round(back)} ms after it was back; ${written} writes acknowledged, ${lost} lost`,
  )
  for (const line of broken.slice(0, 5)) console.log(`    ${line}`)
  if (broken.length > 0 || lost > 0) process.exitCode = 1
}

async function outage(): Promise<void> {
  console.log('a PostgreSQL of its own that is restarted, killed and stopped amid the load of 8 clients')
  await owning(async (t) => outages(t, { file: 'server.js', clients: 8, onOutage: printOutage }))
}

const spreadOf = ({ count, p50, p99, max }: Outcome) =>
  `${count} (${[p50, p99, max].map((time) => time.toFixed(1)).join(' / ')})`

function printOverload({ capacity, quiet, overload, share, shareOfTime, after }: OverloadReport): void {
  console.log(`  capacity ${capacity.toFixed(0)} a second; a tenth of it: ${spreadOf(quiet)}`)
  for (const [status, outcome] of Object.entries(overload.outcomes)) {
    console.log(`  under twice of it, ${status}: ${spreadOf(outcome)}`)
  }
  console.log(`  the load itself was late: ${spreadOf(overload.late)}`)
  console.log(
    `  served ${(share * 100).toFixed(0)} % of the capacity; of what the server's processor time allowed ${(shareOfTime * 100).toFixed(0)} %`,
  )
  console.log(`  a tenth again, 0-5 s and 5-10 s after: ${after.map(spreadOf).join('; ')}`)
  const others = Object.keys(overload.outcomes).filter(
    (status) => !['200', '201', '304', '503'].includes(status),
  )
  if (shareOfTime < LEAST_SHARE || others.length > 0) process.exitCode = 1
}

async function overload(): Promise<void> {
  console.log('twice the capacity for a minute, open loop, on PostgreSQL; answers (ms: p50 / p99 / max)')
  await onServer(async (t, settings) =>
    printOverload(await overloaded(t, { settings, file: 'server.js', times: 2, seconds: 60 })),
  )
}

function printSlow({ quiet, attacked, closed, sockets }: SlowReport): void {
  for (const [kind, { count, first, last }] of Object.entries(closed)) {
    console.log(
      `  ${kind}: ${count} of ${SLOW} heard of their end, ${first.toFixed(1)} to ${last.toFixed(1)} s after they came`,
    )
  }
  const { before, most, gone } = sockets
  console.log(
    `  sockets: ${before} before, ${most} at most; as few again after ${gone?.toFixed(1) ?? 'more than 60'} s`,
  )
  console.log(`  another client alone: ${spreadOf(quiet)}; with them: ${spreadOf(attacked)}`)
  const isHeard = Object.values(closed).every(({ count }) => count === SLOW)
  const isGone = gone !== undefined && gone < MOST_PATIENCE
  if (!isHeard || !isGone || attacked.p99 > MOST_SLOWED * quiet.p99) process.exitCode = 1
}

async function slow(): Promise<void> {
  console.log(
    `${SLOW * 3} slow sockets (heads, bodies, readers), on PostgreSQL; answers (ms: p50 / p99 / max)`,
  )
  await onServer(async (t, settings) =>
    printSlow(await slowSockets(t, { settings, file: 'server.js', each: SLOW })),
  )
}

function printReplicas({
  name,
  requests,
  writes,
  costs,
  reads,
  fallbacks,
  p50,
  p99,
  max,
}: ReplicaPhase): void {
  const parts = Object.entries(costs).map(([part, cost]) => `${part} ${cost.toFixed(0)}`)
  console.log(
    `  ${name}: ${requests} requests, ${writes} of them writes; ms: ${[p50, p99, max].map((time) => time.toFixed(1)).join(' / ')}`,
  )
  console.log(`    us of processor time per request: ${parts.join(', ')}`)
  console.log(
    `    reads from the standby ${reads.replica}, from the primary ${reads.afterWrite} after a write,` +
      ` ${reads.noReplica} for want of a standby; ${fallbacks} statements fell back`,
  )
}

async function replicas(): Promise<void> {
  console.log('two servers behind haproxy, with Redis, a PostgreSQL and a standby that is killed and paused')
  const lacks = missing()
  if (lacks !== undefined) {
    console.log(`  left out: ${lacks} is not installed (apt-get install ${lacks})`)
    return
  }
  await owning(async (t) => {
    const options = { file: 'server.js', writers: 8, phase: 8, onPhase: printReplicas }
    const report = await standbySoak(t, options)
    if (!report) return console.log('  left out: no PostgreSQL is installed on this machine')
    const { failed, overloaded, stale, naive } = report
    console.log(
      `  ${failed.length} failed, ${overloaded} refused as the machine was busy; ${stale.length} reads lacked what their user had written` +
        ` (the standby itself, asked right after a write: ${naive.stale} of ${naive.asked})`,
    )
    for (const line of [...failed, ...stale].slice(0, 20)) console.log(`    ${line}`)
    if (failed.length + stale.length > 0) process.exitCode = 1
  })
}

/** Milliseconds that `/livez` may wait on a quiet machine while one hostile request is answered, and while 20 are. */
const MAX_DELAY_SINGLE = 100
const MAX_DELAY_TOGETHER = 250

function printHostile({ quiet, single, together, worst, unexpected }: HostileReport): void {
  const row = (title: string, { count, p50, p99, max }: Delays) =>
    console.log(`  | ${title} | ${[count, ...[p50, p99, max].map((time) => time.toFixed(1))].join(' | ')} |`)
  console.log('  | `/livez` | requests | p50 | p99 | max |\n  |---|---|---|---|---|')
  row('quiet', quiet)
  row('one hostile request at a time', single)
  row('20 together', together)
  for (const { name, delay } of worst) console.log(`  ${delay.toFixed(1)} ms: ${name}`)
  for (const line of unexpected) console.log(`  another reply than expected: ${line}`)
  if (single.max > MAX_DELAY_SINGLE || together.max > MAX_DELAY_TOGETHER || unexpected.length > 0)
    process.exitCode = 1
}

/** How many times the quiet p99 the other users may wait. */
const MAX_SLOWDOWN = 3

function printHostileMember({ quiet, attacks }: HostileMemberReport): void {
  const row = (title: string, { count, p50, p99, max }: Outcome, rest: readonly (string | number)[]) =>
    console.log(
      `  | ${[title, count, ...[p50, p99, max].map((time) => time.toFixed(1)), ...rest].join(' | ')} |`,
    )
  console.log('  | Other users | answers | p50 | p99 | max | refused | the attacker got | peak memory |')
  console.log('  |---|---|---|---|---|---|---|---|')
  row('quiet', quiet, ['', '', ''])
  for (const { name, others, refused, attacker, peakMemory } of attacks) {
    const statuses = Object.entries(attacker).map(([status, count]) => `${count} times ${status}`)
    row(name, others, [refused, statuses.join(', '), `${peakMemory.toFixed(0)} MiB`])
    if (others.p99 > MAX_SLOWDOWN * quiet.p99 || refused > 0) process.exitCode = 1
  }
}

async function hostile(): Promise<void> {
  console.log('requests of at most 1 MiB that are made to be expensive, for a minute, on PostgreSQL; ms')
  await onServer(async (t, settings) => printHostile(await hostileRequests(t, { settings, seconds: 60 })))
  console.log('one member within the default limits, for a minute each, with ten other users; ms')
  await onServer(async (t, settings) =>
    printHostileMember(await attackAsMember(t, { settings, file: 'server.js', seconds: 60 })),
  )
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  kill,
  crash,
  seed,
  passwords,
  restarts,
  outages: outage,
  overload,
  slow,
  hostile,
  replicas,
}

const asked = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)
const chosen = asked.map((name) => Object.hasOwn(parts, name) && parts[name])
if (chosen.includes(false)) {
  console.error(`npm run soak -- [part ...]; the parts are ${Object.keys(parts).join(', ')}`)
  process.exitCode = 2
} else {
  for (const part of chosen) if (part) await part()
}
