/**
 * `npm run bench:addresses -- --at 'name=url|database url,...'`: measures servers that run already, such as those of
 * bench/compose.yaml. Each has its own copy of the same rows.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { assertNoFailures } from './command.ts'
import { readProcessTreeCpu } from './cpu.ts'
import { openRows, type Rows } from './database.ts'
import { type LoadResult, runLoad } from './load.ts'
import { rotate } from './measure.ts'
import { type Options, readOptions } from './options.ts'
import { ALL_CORES } from './process-setup.ts'
import { formatTable } from './report.ts'
import { drawSamples, type Samples } from './samples.ts'
import { computeSpread } from './statistics.ts'
import { createCheckedCalls, type TargetProcess } from './target-process.ts'
import { targets } from './targets/index.ts'
import { postgrest } from './targets/postgrest.ts'
import { type Call, send } from './targets/target.ts'
import { isMeasured, type Workload, workloads } from './workloads.ts'

const START_TIMEOUT_MS = 120_000
const POLLING_INTERVAL_MS = 500

interface AddressedTarget extends TargetProcess {
  rows: Rows
}

interface Measurement extends LoadResult {
  /** CPU of the server per request in microseconds; undefined if its process is not known. */
  server: number | undefined
}

async function waitForServer(base: string): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS
  const isAnswered = () =>
    send(base, { method: 'GET', path: '/' }).then(
      () => true,
      () => false,
    )
  while (!(await isAnswered())) {
    if (performance.now() > deadline) throw new Error(`There is no server at ${base}`)
    await wait(POLLING_INTERVAL_MS)
  }
}

/** @param text `name=url|database url`, and `|process id` if its CPU can be read on this machine */
async function openTarget(text: string): Promise<AddressedTarget> {
  const [, name = '', address = '', databaseUrl = '', pid = '0'] =
    /^([\w-]+)=([^|]+)\|([^|]+)(?:\|(\d+))?$/.exec(text) ?? []
  const target = [...targets, postgrest].find((each) => each.name === name)
  if (!target) throw new Error(`"${text}" must be "name=url|database url", with the name of a target`)
  const base = new URL(address).origin
  await waitForServer(base)
  const headers = (await target.createHeaders?.(base)) ?? {}
  const port = Number(new URL(base).port || 80)
  return {
    ...{ target, base, headers, port, pid: Number(pid) },
    stop: async () => {},
    rows: openRows(databaseUrl),
  }
}

async function measure(
  { base, port, pid }: AddressedTarget,
  calls: readonly Call[],
  { connections, generator }: Options,
  seconds: number,
  file: string,
): Promise<Measurement> {
  const before = readProcessTreeCpu(pid)
  const host = new URL(base).hostname
  const result = await runLoad(calls, { host, port, seconds, connections, generator, file, core: ALL_CORES })
  return { ...result, server: pid > 0 ? (readProcessTreeCpu(pid) - before) / result.requests : undefined }
}

/** Measures a workload in rounds. Each round measures every target once, beginning with another one. */
async function measureWorkload(
  workload: Workload,
  measured: readonly AddressedTarget[],
  samples: Samples,
  options: Options,
  file: string,
): Promise<Map<string, Measurement[]>> {
  const loads: { target: AddressedTarget; calls: readonly Call[]; measurements: Measurement[] }[] = []
  for (const target of measured) {
    const calls = await createCheckedCalls(target, workload, { database: target.rows, samples })
    await measure(target, calls, options, options.warmup, file)
    loads.push({ target, calls, measurements: [] })
  }
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { target, calls, measurements } of rotate(loads, round)) {
      if (workload.writes) await target.rows.deleteWrittenRows()
      measurements.push(await measure(target, calls, options, options.seconds, file))
    }
  }
  if (workload.writes) for (const { rows } of measured) await rows.deleteWrittenRows()
  return new Map(loads.map(({ target, measurements }) => [target.target.title, measurements]))
}

const formatMedian = (
  measurements: readonly Measurement[],
  read: (m: Measurement) => number,
  digits: number,
) => computeSpread(measurements.map(read)).median.toFixed(digits)

function listRows({ name, title }: Workload, results: ReadonlyMap<string, Measurement[]>): string[][] {
  return [...results].map(([target, measurements]) => [
    `${name}: ${title}`,
    target,
    formatMedian(measurements, ({ requests, seconds }) => requests / seconds, 0),
    formatMedian(measurements, ({ p50 }) => p50, 1),
    formatMedian(measurements, ({ p99 }) => p99, 1),
    measurements.some(({ server }) => server === undefined)
      ? ''
      : formatMedian(measurements, ({ server }) => server ?? 0, 0),
  ])
}

async function measureAddresses(options: Options): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-bench-'))
  const opened: AddressedTarget[] = []
  try {
    for (const text of options.at) opened.push(await openTarget(text))
    const [first] = opened
    if (!first) throw new Error('--at names no server')
    const samples = await drawSamples(first.rows.sql)
    const rows: string[][] = []
    const all: Measurement[] = []
    for (const workload of workloads.filter(({ name }) => options.workloads.includes(name))) {
      const measured = opened.filter(({ target }) => isMeasured(target, workload))
      const results = await measureWorkload(workload, measured, samples, options, join(folder, 'requests'))
      rows.push(...listRows(workload, results))
      all.push(...[...results.values()].flat())
      console.log(`${workload.name} measured`)
    }
    console.log(
      `\n${formatTable(['Workload', 'Target', 'Requests/s', 'p50, ms', 'p99, ms', 'Server, µs'], rows)}`,
    )
    assertNoFailures(all)
  } finally {
    await Promise.all(opened.map(({ rows }) => rows.sql.end()))
    rmSync(folder, { recursive: true })
  }
}

try {
  const options = readOptions(
    'bench:addresses',
    ['at', 'workloads', 'seconds', 'warmup', 'rounds', 'connections', 'generator'],
    process.argv.slice(2),
    { workloads: 'W1,W2,W3,W4,W5', seconds: '5', warmup: '5', rounds: '5' },
  )
  if (options) await measureAddresses(options)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
