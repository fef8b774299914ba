/** Sends several times as many requests as a server can serve, and measures how many it serves and refuses. */
import { readProcessCpu } from '../../bench/cpu.ts'
import type { Owner } from '../helpers/database.ts'
import { bindServer, runLoad } from './load.ts'
import { failIf, formatOutcome } from './report.ts'
import { startSeededServer } from './server.ts'

/** The share of the capacity that must be served at twice the capacity. */
const MIN_SHARE = 0.8
const CLOSED_LOOP_CONNECTIONS = 128
const WARM_UP_SECONDS = 5
const CAPACITY_SECONDS = 10
const CALM_SECONDS = 5
const OVERLOAD_SECONDS = 60

/** Measures the capacity of a server, and how much of it remains under overload. */
export async function measureOverload(t: Owner): Promise<void> {
  console.log('twice the capacity for a minute, open loop, PostgreSQL; responses (ms: p50 / p99 / max)')
  const { server, requests } = await startSeededServer(t)
  const pid = Number(server.child.pid)
  if (!bindServer(pid)) {
    console.log('  (no CPU affinity: the server and the load generator share processors)')
  }
  /** Returns also the served requests per microsecond of CPU time of the server. */
  const measure = async (load: { seconds: number; rate?: number; connections?: number }) => {
    const before = readProcessCpu(pid)
    const report = await runLoad({ port: server.port, requests, ...load })
    return { ...report, servedPerCpuTime: report.served.count / (readProcessCpu(pid) - before) }
  }

  const connections = CLOSED_LOOP_CONNECTIONS
  await measure({ connections, seconds: WARM_UP_SECONDS })
  const full = await measure({ connections, seconds: CAPACITY_SECONDS })
  const capacity = full.served.count / full.seconds
  const measureCalm = async () =>
    formatOutcome((await measure({ rate: capacity / 10, seconds: CALM_SECONDS })).served)
  console.log(`  capacity ${capacity.toFixed(0)} per second; at a tenth of it: ${await measureCalm()}`)
  const overload = await measure({ rate: capacity * 2, seconds: OVERLOAD_SECONDS })
  for (const [status, outcome] of Object.entries(overload.outcomes)) {
    console.log(`  at twice the capacity, ${status}: ${formatOutcome(outcome)}`)
  }
  console.log(`  requests sent late: ${formatOutcome(overload.late)}`)
  const share = overload.served.count / overload.seconds / capacity
  // Excludes the CPU time that other processes take.
  const shareOfTime = overload.servedPerCpuTime / full.servedPerCpuTime
  const [percent, percentOfTime] = [share, shareOfTime].map((each) => (each * 100).toFixed(0))
  console.log(`  served ${percent} % of the capacity; ${percentOfTime} % per CPU second of the server`)
  console.log(`  at a tenth, 0-5 s and 5-10 s later: ${await measureCalm()}; ${await measureCalm()}`)
  const isUnexpected = (status: string) => !['200', '201', '304', '503'].includes(status)
  failIf(shareOfTime < MIN_SHARE || Object.keys(overload.outcomes).some(isUnexpected))
}
