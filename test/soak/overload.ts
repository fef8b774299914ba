/** Sends several times as many requests as a server can serve, and measures how many it serves and refuses. */
import type { Owner } from '../helpers/database.ts'
import { bindToProcessor, PROCESSORS, readCpuSeconds, runLoad } from './cpu-affinity.ts'
import type { LoadOptions, LoadReport, Outcome } from './load-generator.ts'
import { type ServerOptions, startSeededServer } from './seeded-server.ts'

export interface OverloadOptions extends ServerOptions {
  /** The request rate of the overload, as a multiple of the capacity. */
  times: number
  /** Seconds of the overload. */
  seconds: number
}

export interface OverloadReport {
  /** Requests per second in a closed loop on 128 connections. */
  capacity: number
  /** Responses at a tenth of the capacity. */
  quiet: Outcome
  overload: LoadReport
  /** The rate of served requests in the overload, divided by the capacity. */
  share: number
  /** The same per CPU second of the server, which excludes the CPU time that other processes take. */
  shareOfTime: number
  /** Responses at a tenth of the capacity: 0-5 s and 5-10 s after the overload. */
  after: Outcome[]
}

const CLOSED_LOOP_CONNECTIONS = 128
const WARM_UP_SECONDS = 5
const CAPACITY_SECONDS = 10
const CALM_SECONDS = 5
/** Kept-alive connections, as a proxy has them; more than the server admits at the same time. */
const OVERLOAD_CONNECTIONS = 1_500

/** Measures the capacity of a server, and how much of it remains under overload. */
export async function measureOverload(t: Owner, options: OverloadOptions): Promise<OverloadReport> {
  const { times, seconds } = options
  const { server, port, requests } = await startSeededServer(t, options)
  const { pid } = server.child
  if (!bindToProcessor(pid, PROCESSORS.server)) {
    console.log('  (no CPU affinity: the server and the load generator share processors)')
  }
  const common = { port, requests, connections: CLOSED_LOOP_CONNECTIONS }

  /** Returns also the served requests per CPU second of the server. */
  const measure = async (loadOptions: Partial<LoadOptions> & { seconds: number }) => {
    const cpuBefore = readCpuSeconds(pid)
    const report = await runLoad({ ...common, ...loadOptions })
    return { report, servedPerCpuSecond: report.served.count / (readCpuSeconds(pid) - cpuBefore) }
  }

  await runLoad({ ...common, seconds: WARM_UP_SECONDS })
  const full = await measure({ seconds: CAPACITY_SECONDS })
  const capacity = full.report.served.count / full.report.seconds
  const measureCalm = async () =>
    (await runLoad({ ...common, rate: capacity / 10, seconds: CALM_SECONDS })).served
  const quiet = await measureCalm()
  const { report: overload, servedPerCpuSecond } = await measure({
    rate: capacity * times,
    seconds,
    connections: OVERLOAD_CONNECTIONS,
  })
  const share = overload.served.count / overload.seconds / capacity
  const shareOfTime = servedPerCpuSecond / full.servedPerCpuSecond
  return { capacity, quiet, overload, share, shareOfTime, after: [await measureCalm(), await measureCalm()] }
}
