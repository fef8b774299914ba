/** Sends twice as many requests as the server can answer, and measures how many succeed and how soon others get 503. */
import type { Owner } from '../helpers/database.ts'
import type { LoadOptions, LoadReport, Outcome } from './load.ts'
import { loaded, type Served } from './mixture.ts'
import { PROCESSORS, pin, processorTime, runLoad } from './pinned.ts'

export interface OverloadOptions extends Served {
  /** How many times the capacity is asked for. */
  times: number
  /** Of the overload. */
  seconds: number
}

export interface OverloadReport {
  /** Requests a second, one after the other on 128 connections. */
  capacity: number
  /** At a tenth of it. */
  quiet: Outcome
  overload: LoadReport
  /** Served in the overload, of the capacity. */
  share: number
  /** The same, of each second of processor time that the server got: what others on the machine took is left out. */
  shareOfTime: number
  /** At a tenth again: in the five seconds after the overload, and in the five after those. */
  after: Outcome[]
}

const CLOSED_LOOP = 128
const WARM_UP = 5
const MEASURED = 10
/** Keep-alive connections, as a proxy has them: opened in advance, because Node.js accepts one in each turn of its loop. */
const KEPT = 1_500

/** Measures one server: its capacity, and what is left of it under several times as much. */
export async function overloaded(t: Owner, options: OverloadOptions): Promise<OverloadReport> {
  const { times, seconds } = options
  const { server, port, requests } = await loaded(t, options)
  if (!pin(server.child.pid, PROCESSORS.server))
    console.log('  (not pinned: server and load share processors)')
  const common = { port, requests, connections: CLOSED_LOOP }

  /** Also by the processor time that the server took. */
  const measure = async (options: Partial<LoadOptions> & { seconds: number }) => {
    const before = processorTime(server.child.pid)
    const report = await runLoad({ ...common, ...options })
    return { report, perTime: report.served.count / (processorTime(server.child.pid) - before) }
  }

  await runLoad({ ...common, seconds: WARM_UP })
  const full = await measure({ seconds: MEASURED })
  const capacity = full.report.served.count / full.report.seconds
  const calm = () => runLoad({ ...common, rate: capacity / 10, seconds: 5 }).then(({ served }) => served)
  const quiet = await calm()
  const { report: overload, perTime } = await measure({ rate: capacity * times, seconds, connections: KEPT })
  const share = overload.served.count / overload.seconds / capacity
  const shareOfTime = perTime / full.perTime
  return { capacity, quiet, overload, share, shareOfTime, after: [await calm(), await calm()] }
}
