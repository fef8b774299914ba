/** Sends several times as many requests as a server can serve, and measures how many it serves and refuses. */
import type { Owner } from '../helpers/database.ts'
import { bindToProcessor, PROCESSORS, readCpuSeconds, runLoad } from './cpu-affinity.ts'
import type { LoadOptions } from './load-generator.ts'
import { failIf, formatOutcome } from './report.ts'
import { startSeededServer } from './seeded-server.ts'

/** The share of the capacity that must be served at twice the capacity. */
const MIN_SHARE = 0.8
const CLOSED_LOOP_CONNECTIONS = 128
const WARM_UP_SECONDS = 5
const CAPACITY_SECONDS = 10
const CALM_SECONDS = 5
const OVERLOAD_SECONDS = 60
/** Kept-alive connections, as a proxy has them; more than the server admits at the same time. */
const OVERLOAD_CONNECTIONS = 1_500

/** Measures the capacity of a server, and how much of it remains under overload. */
export async function measureOverload(t: Owner): Promise<void> {
  console.log('twice the capacity for a minute, open loop, PostgreSQL; responses (ms: p50 / p99 / max)')
  const { server, requests } = await startSeededServer(t)
  const { pid } = server.child
  if (!bindToProcessor(pid, PROCESSORS.server)) {
    console.log('  (no CPU affinity: the server and the load generator share processors)')
  }
  const common = { port: server.port, requests, connections: CLOSED_LOOP_CONNECTIONS }

  /** Returns also the served requests per CPU second of the server. */
  const measure = async (options: Partial<LoadOptions> & { seconds: number }) => {
    const cpuBefore = readCpuSeconds(pid)
    const report = await runLoad({ ...common, ...options })
    return { ...report, servedPerCpuSecond: report.served.count / (readCpuSeconds(pid) - cpuBefore) }
  }

  await runLoad({ ...common, seconds: WARM_UP_SECONDS })
  const full = await measure({ seconds: CAPACITY_SECONDS })
  const capacity = full.served.count / full.seconds
  const measureCalm = async () =>
    formatOutcome((await runLoad({ ...common, rate: capacity / 10, seconds: CALM_SECONDS })).served)
  console.log(`  capacity ${capacity.toFixed(0)} per second; at a tenth of it: ${await measureCalm()}`)
  const overload = await measure({
    ...{ rate: capacity * 2, seconds: OVERLOAD_SECONDS, connections: OVERLOAD_CONNECTIONS },
  })
  for (const [status, outcome] of Object.entries(overload.outcomes)) {
    console.log(`  at twice the capacity, ${status}: ${formatOutcome(outcome)}`)
  }
  console.log(`  requests sent late: ${formatOutcome(overload.late)}`)
  const share = overload.served.count / overload.seconds / capacity
  // Excludes the CPU time that other processes take.
  const shareOfTime = overload.servedPerCpuSecond / full.servedPerCpuSecond
  console.log(
    `  served ${(share * 100).toFixed(0)} % of the capacity; ${(shareOfTime * 100).toFixed(0)} % per CPU second of the server`,
  )
  console.log(
    `  at a tenth, 0-5 s and 5-10 s after the overload: ${await measureCalm()}; ${await measureCalm()}`,
  )
  const isUnexpected = (status: string) => !['200', '201', '304', '503'].includes(status)
  failIf(shareOfTime < MIN_SHARE || Object.keys(overload.outcomes).some(isUnexpected))
}
