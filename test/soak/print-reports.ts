/** Prints the reports of the soak tests, and sets exit code 1 if one breaks a guarantee. */
import type { Delays } from '../helpers/attacks.ts'
import type { CrashReport } from './crash.ts'
import type { EventsReport } from './events.ts'
import type { HostileReport } from './hostile.ts'
import type { HostileMemberReport } from './hostile-member.ts'
import type { KillReport } from './kill.ts'
import type { Outcome } from './load-generator.ts'
import type { Outage } from './outages.ts'
import type { OverloadReport } from './overload.ts'
import type { PasswordPhase, PasswordsReport, Times } from './passwords.ts'
import type { ReplicaPhase, ReplicasReport } from './replicas.ts'
import type { RestartReport } from './restarts.ts'
import type { SlowReport } from './slow.ts'
import type { SlowEndpointsReport } from './slow-endpoints.ts'

const MAX_PRINTED_LINES = 20
/** The share of the capacity that must be served at twice the capacity. */
const MIN_OVERLOAD_SHARE = 0.8
const OVERLOAD_STATUSES = ['200', '201', '304', '503']
/** The factor by which the p99 of a normal client may grow because of slow sockets. */
const MAX_SLOW_SOCKET_SLOWDOWN = 2
/** The time until the last slow socket must be closed: the timeout of unread responses, and a few seconds. */
const MAX_SLOW_SOCKET_SECONDS = 35
/** The time until a webhook of a quick endpoint must arrive, and the places of one owner: a quarter of 50. */
const MAX_WEBHOOK_DELAY_MS = 2_000
const MAX_PLACES_OF_OWNER = 12
/** Milliseconds that `/livez` may take during one hostile request, and during 20. */
const MAX_DELAY_SINGLE_MS = 100
const MAX_DELAY_TOGETHER_MS = 250
/** The factor by which the p99 of other users may grow because of a hostile member. */
const MAX_MEMBER_SLOWDOWN = 3

function failIf(isBroken: boolean): void {
  if (isBroken) process.exitCode = 1
}

function printLines(lines: readonly string[], limit = MAX_PRINTED_LINES, indent = '  '): void {
  for (const line of lines.slice(0, limit)) console.log(`${indent}${line}`)
}

function getQuantiles(times: readonly number[], shares: readonly number[]): (number | undefined)[] {
  const sorted = [...times].sort((a, b) => a - b)
  return shares.map((share) => sorted[Math.floor((sorted.length - 1) * share)])
}

/** Formats minimum, median and maximum. */
const formatRange = (times: readonly number[]) => getQuantiles(times.map(Math.round), [0, 0.5, 1]).join(' / ')

const formatTimes = (times: readonly (number | undefined)[]) =>
  times.map((time) => time?.toFixed(1)).join(' / ')

const formatOutcome = ({ count, p50, p99, max }: Outcome) => `${count} (${formatTimes([p50, p99, max])})`

const formatCells = ({ count, p50, p99, max }: Outcome) =>
  [count, ...[p50, p99, max].map((time) => time.toFixed(1))].join(' | ')

export function printKills(title: string, { restarts, lost, ...counts }: KillReport): void {
  console.log(
    `${title}: ${restarts.length} kills; ${counts.acknowledged} writes acknowledged, ${lost.length} of them lost;` +
      ` ${counts.inDoubt} in doubt, ${counts.refused} refused;` +
      ` restart ${formatRange(restarts)} ms (min, median, max)` +
      (counts.intruders > 0 ? `; ${counts.intruders} second processes refused` : ''),
  )
  printLines(lost)
  failIf(lost.length > 0)
}

export function printCrashes({ version, lost, duplicated, ...report }: CrashReport): void {
  const { recoveryTimes, reconnectTimes, refused } = report
  console.log(
    `${version}: ${recoveryTimes.length} kills; ${report.acknowledged} writes acknowledged,` +
      ` ${report.replayed} of them by a replay; ${lost.length} lost, ${duplicated.length} duplicated`,
  )
  console.log(`  other responses: ${JSON.stringify(refused)}`)
  console.log(
    `  first 200 ${formatRange(recoveryTimes)} ms after the kill (min, median, max),` +
      ` ${formatRange(reconnectTimes)} ms after PostgreSQL accepted connections`,
  )
  printLines([...lost, ...duplicated])
  const isUnexpected = (name: string) => !/^(?:503|409 RESOURCE_CONFLICT|error)/.test(name)
  failIf(lost.length + duplicated.length > 0 || Object.keys(refused).some(isUnexpected))
}

export function printEvents(report: EventsReport): void {
  const { version, kills, writes, otherResponses, webhooks, positionDelays, violations } = report
  console.log(
    `${version}: ${kills.server} kills of the server, ${kills.postgres} of PostgreSQL;` +
      ` ${writes.acknowledged} writes acknowledged (${writes.replayed} by a replay), ${writes.refused} refused,` +
      ` ${writes.unknown} in doubt, ${writes.unknownMade} of them made; ${report.events} events; ${violations.length} violations`,
  )
  for (const { name, events, repeated, connections, longestWait } of report.consumers) {
    console.log(
      `  ${name}: ${events} events, ${repeated} repeated, ${connections} connections or pages,` +
        ` longest wait ${Math.round(longestWait)} ms`,
    )
  }
  const { arrived, rejected, repeated } = webhooks
  console.log(`  webhooks: ${arrived} arrived, ${rejected} of them rejected; ${repeated} events repeated`)
  const { p50, p99, max } = positionDelays
  console.log(`  ms until the position: ${formatTimes([p50, p99, max])} (p50, p99, max)`)
  for (const [part, times] of Object.entries(report.recoveryTimes)) {
    console.log(`  first 200 ${formatRange(times)} ms after a kill of ${part} (min, median, max)`)
  }
  console.log(`  other responses: ${JSON.stringify(otherResponses)}`)
  printLines(violations)
  const isUnexpected = (name: string) => !/^(?:503|409|no response)/.test(name)
  failIf(violations.length > 0 || Object.keys(otherResponses).some(isUnexpected))
}

export function printPasswords(report: PasswordsReport): void {
  const { idle, alone, attacked, rate, statuses, unknown, wrong } = report
  const format = ({ mean, p50, p99, max }: Times) => formatTimes([mean, p50, p99, max])
  const printPhase = (title: string, { loop, client }: PasswordPhase) =>
    console.log(`  ${title}: event loop delay ${format(loop)}${client ? `; GET ${format(client)}` : ''}`)
  printPhase('idle', idle)
  printPhase('with another client', alone)
  printPhase('with another client and wrong passwords', attacked)
  console.log(`  ${rate.toFixed(0)} wrong passwords per second; responses ${JSON.stringify(statuses)}`)
  console.log(`  sequential: unknown address ${format(unknown)}; wrong password ${format(wrong)}`)
  failIf(Object.keys(statuses).join() !== '401')
}

export function printRestarts(report: RestartReport): void {
  const { answered, failed, written, lost, times, ends, codes } = report
  console.log(
    `  ${answered} requests answered, ${failed.length} failed; ${written} writes acknowledged, ${lost} lost;` +
      ` ms: ${formatTimes(getQuantiles(times, [0.5, 0.99, 1]))} (p50, p99, max);` +
      ` processes ended ${Math.round(Math.min(...ends))} to ${Math.round(Math.max(...ends))} ms after SIGTERM,` +
      ` exit codes ${[...new Set(codes)].join()}`,
  )
  printLines(failed)
  failIf(failed.length > 0 || lost > 0 || codes.some((code) => code !== 0))
}

export function printOutage({ name, broken, longest, back, lost, ...counts }: Outage): void {
  console.log(
    `  ${name}: ${counts.answered} answered, ${counts.refused} refused (503), ${broken.length} otherwise;` +
      ` slowest ${Math.round(longest)} ms; ready ${Math.round(back)} ms after PostgreSQL returned;` +
      ` ${counts.written} writes acknowledged, ${lost} lost`,
  )
  printLines(broken, 5, '    ')
  failIf(broken.length > 0 || lost > 0)
}

export function printOverload(report: OverloadReport): void {
  const { capacity, quiet, overload, share, shareOfTime, after } = report
  console.log(`  capacity ${capacity.toFixed(0)} per second; at a tenth of it: ${formatOutcome(quiet)}`)
  for (const [status, outcome] of Object.entries(overload.outcomes)) {
    console.log(`  at twice the capacity, ${status}: ${formatOutcome(outcome)}`)
  }
  console.log(`  requests sent late: ${formatOutcome(overload.late)}`)
  console.log(
    `  served ${(share * 100).toFixed(0)} % of the capacity; ${(shareOfTime * 100).toFixed(0)} % per CPU second of the server`,
  )
  console.log(`  at a tenth, 0-5 s and 5-10 s after the overload: ${after.map(formatOutcome).join('; ')}`)
  const isUnexpected = (status: string) => !OVERLOAD_STATUSES.includes(status)
  failIf(shareOfTime < MIN_OVERLOAD_SHARE || Object.keys(overload.outcomes).some(isUnexpected))
}

/** @param expected the number of sockets of each kind */
export function printSlowSockets({ quiet, loaded, closed, sockets }: SlowReport, expected: number): void {
  for (const [kind, { count, first, last }] of Object.entries(closed)) {
    console.log(
      `  ${kind}: ${count} of ${expected} closed, ${first.toFixed(1)} to ${last.toFixed(1)} s after they were opened`,
    )
  }
  const { before, max, closedAfter } = sockets
  console.log(
    `  sockets: ${before} before, ${max} at most; as few as before after ${closedAfter?.toFixed(1) ?? 'more than 60'} s`,
  )
  console.log(
    `  a normal client without slow sockets: ${formatOutcome(quiet)}; with them: ${formatOutcome(loaded)}`,
  )
  const areClosed = Object.values(closed).every(({ count }) => count === expected)
  const isInTime = closedAfter !== undefined && closedAfter < MAX_SLOW_SOCKET_SECONDS
  failIf(!areClosed || !isInTime || loaded.p99 > MAX_SLOW_SOCKET_SLOWDOWN * quiet.p99)
}

export function printReplicaPhase({ name, requests, writes, costs, reads, ...rest }: ReplicaPhase): void {
  const parts = Object.entries(costs).map(([part, cost]) => `${part} ${cost.toFixed(0)}`)
  const { fallbacks, p50, p99, max } = rest
  console.log(
    `  ${name}: ${requests} requests, ${writes} of them writes; ms: ${formatTimes([p50, p99, max])}`,
  )
  console.log(`    us of CPU time per request: ${parts.join(', ')}`)
  console.log(
    `    reads from the standby ${reads.replica}, from the primary ${reads.afterWrite} after a write,` +
      ` ${reads.noReplica} without an available standby; ${fallbacks} statements fell back`,
  )
}

export function printReplicas({ failed, overloaded, stale, standbyReads }: ReplicasReport): void {
  console.log(
    `  ${failed.length} failed, ${overloaded} refused because of overload; ${stale.length} reads lacked an own write` +
      ` (on the standby itself, right after a write: ${standbyReads.stale} of ${standbyReads.total})`,
  )
  printLines([...failed, ...stale], MAX_PRINTED_LINES, '    ')
  failIf(failed.length + stale.length > 0)
}

export function printSlowEndpoints({ delays, missing, ...counts }: SlowEndpointsReport): void {
  const { slowRequests, deadRequests, storedAttempts, mostConcurrent } = counts
  console.log(
    `  ${delays.length} webhooks arrived, ${missing} did not; ms after the change: ${formatTimes(getQuantiles(delays, [0.5, 0.99, 1]))}`,
  )
  console.log(
    `  the slow endpoints got ${slowRequests} requests, up to ${mostConcurrent} at a time; the dead ones ${deadRequests}; ${storedAttempts} attempts are stored`,
  )
  const isLate = missing > 0 || delays.some((delay) => delay > MAX_WEBHOOK_DELAY_MS)
  failIf(isLate || mostConcurrent > MAX_PLACES_OF_OWNER || storedAttempts !== slowRequests + deadRequests)
}

export function printHostile({ quiet, single, together, worst, unexpected }: HostileReport): void {
  const printRow = (title: string, delays: Delays) => console.log(`  | ${title} | ${formatCells(delays)} |`)
  console.log('  | `/livez` | requests | p50 | p99 | max |\n  |---|---|---|---|---|')
  printRow('quiet', quiet)
  printRow('one hostile request at a time', single)
  printRow('20 concurrently', together)
  for (const { name, delay } of worst) console.log(`  ${delay.toFixed(1)} ms: ${name}`)
  for (const line of unexpected) console.log(`  unexpected response: ${line}`)
  const isSlow = single.max > MAX_DELAY_SINGLE_MS || together.max > MAX_DELAY_TOGETHER_MS
  failIf(isSlow || unexpected.length > 0)
}

export function printHostileMember({ quiet, attacks }: HostileMemberReport): void {
  console.log('  | Other users | responses | p50 | p99 | max | refused | attacker received | peak memory |')
  console.log('  |---|---|---|---|---|---|---|---|')
  console.log(`  | quiet | ${formatCells(quiet)} |  |  |  |`)
  for (const { name, others, refused, attacker, peakMemory } of attacks) {
    const statuses = Object.entries(attacker).map(([status, count]) => `${count} times ${status}`)
    const cells = [refused, statuses.join(', '), `${peakMemory.toFixed(0)} MiB`].join(' | ')
    console.log(`  | ${name} | ${formatCells(others)} | ${cells} |`)
    failIf(others.p99 > MAX_MEMBER_SLOWDOWN * quiet.p99 || refused > 0)
  }
}
