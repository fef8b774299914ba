/** Formats the results as tables in Markdown. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, release } from 'node:os'
import { join } from 'node:path'
import type { Measurement, Results, WorkloadResults } from './measure.ts'
import type { Options } from './options.ts'
import { createPlot } from './plot.ts'
import { computeMedianInterval, computeSpread, type Spread } from './statistics.ts'
import { targets } from './targets/index.ts'
import { equalReference, plainReference } from './targets/reference.ts'
import { baselineWithKey, serviceWithKey, serviceWithToken } from './targets/resource-api.ts'
import { type Goal, type Workload, workloads } from './workloads.ts'

/** The content of results.json. */
export interface Run {
  /** The machine, the versions and the options of the run, in Markdown. */
  facts: string
  results: Results
}

const getTitle = (name: string) => targets.find((target) => target.name === name)?.title ?? name

const formatNumber = (number: number, places: number) =>
  number.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })

const formatRange = ([low, high]: readonly [number, number], places: number) =>
  `${formatNumber(low, places)}-${formatNumber(high, places)}`

const formatSpread = ({ median, quartiles }: Spread, places: number) =>
  `${formatNumber(median, places)} (${formatRange(quartiles, places)})`

const formatRow = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

export const formatTable = (heading: readonly string[], rows: readonly string[][]) =>
  [
    formatRow(heading),
    formatRow(heading.map((_, i) => (i === 0 ? '---' : '---:'))),
    ...rows.map(formatRow),
  ].join('\n')

type Figure = (measurement: Measurement) => number

/** CPU per request of the server and PostgreSQL. */
const getCpu: Figure = ({ server, postgres }) => server + postgres

/** Returns the ratios of two targets, round by round, which cancels disturbances that slow both; a list for each process. */
const divideRounds = (results: WorkloadResults, numerator: string, denominator: string, figure: Figure) =>
  (results[numerator] ?? []).map((rounds, process) =>
    rounds.flatMap((measurement, round) => {
      const other = results[denominator]?.[process]?.[round]
      return other ? [figure(measurement) / figure(other)] : []
    }),
  )

/** Returns the 95 % interval of the ratio. The rounds of one process are not independent, so it counts once. */
function formatInterval(ratios: readonly number[][]): string {
  const interval = computeMedianInterval(ratios.map((rounds) => computeSpread(rounds).median))
  return interval ? formatRange(interval, 2) : ''
}

/** @returns one empty cell if there is no goal */
const formatGoal = (sign: '≥' | '≤', value: number, goal: number | undefined): string => {
  if (goal === undefined) return ''
  const isReached = sign === '≥' ? value >= goal : value <= goal
  return `${sign} ${formatNumber(goal, 2)} ${isReached ? 'reached' : 'missed'}`
}

function compare(results: WorkloadResults, target: string, other: string, goal: Goal | undefined): string[] {
  const cpuShares = divideRounds(results, other, target, getCpu)
  const cpuShare = computeSpread(cpuShares.flat())
  const p99 = computeSpread(divideRounds(results, target, other, (each) => each.p99).flat())
  return [
    getTitle(target),
    getTitle(other),
    formatSpread(cpuShare, 2),
    formatInterval(cpuShares),
    formatGoal('≥', cpuShare.median, goal?.cpuShare),
    formatSpread(p99, 2),
    formatGoal('≤', p99.median, goal?.p99),
  ]
}

const LEGEND =
  'Targets named `ours` are this service. CPU share: CPU time per request of server and PostgreSQL of the other target, divided by that of the target; 1 means equal, more is better. p99 ratio: that of the target divided by that of the other; less is better. Both are medians of the ratios of each round, with quartiles. The 95 % interval of the CPU share takes each process as one sample, and needs six of them.'

/** Compares this service with the references, with itself without events and with the baseline. */
export function createComparison(results: Results): string {
  const rows = workloads.flatMap(({ name, title, goals }) => {
    const measured = results[name] ?? {}
    return [serviceWithKey.name, serviceWithToken.name].flatMap((target) =>
      [...Object.keys(goals), baselineWithKey.name]
        .filter((other) => measured[target] && measured[other])
        .map((other) => [`${name} ${title}`, ...compare(measured, target, other, goals[other])]),
    )
  })
  const heading = ['Workload', 'Target', 'Other', 'CPU share', '95 % interval', 'Goal', 'p99 ratio', 'Goal']
  return rows.length === 0 ? '' : formatTable(heading, rows)
}

function createSection({ name, title }: Workload, results: WorkloadResults): string {
  const rows = Object.entries(results).map(([target, processes]) => {
    const getSpread = (figure: Figure) => computeSpread(processes.flat().map(figure))
    const formatShare = (other: string) => {
      const shares = divideRounds(results, other, target, getCpu).flat()
      return shares.length === 0 || other === target ? '' : formatSpread(computeSpread(shares), 2)
    }
    return [
      getTitle(target),
      formatSpread(
        getSpread(({ requests, seconds }) => requests / seconds),
        0,
      ),
      formatSpread(
        getSpread(({ p50 }) => p50),
        1,
      ),
      formatSpread(
        getSpread(({ p99 }) => p99),
        1,
      ),
      formatSpread(
        getSpread(({ server }) => server),
        0,
      ),
      formatSpread(
        getSpread(({ postgres }) => postgres),
        0,
      ),
      formatShare(plainReference.name),
      formatShare(equalReference.name),
      formatNumber(getSpread(({ memory }) => memory).max, 0),
      `${formatNumber(getSpread(({ busy }) => busy).median * 100, 0)} %`,
    ]
  })
  const heading = ['Target', 'Requests/s', 'p50, ms', 'p99, ms', 'Server, µs', 'PostgreSQL, µs']
  const shares = ['CPU share: plain', 'CPU share: equal', 'Memory at most, MB', 'Core']
  return `## ${name}: ${title}\n\n${formatTable([...heading, ...shares], rows)}`
}

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()

/** Describes the command, the commit, the machine, the versions and the options of a run. */
export function describeRun(options: Options, postgresVersion: string): string {
  const { generator, processes, rounds, seconds, warmup, connections, poolSize } = options
  const node = execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim()
  const isClean = git('status', '--porcelain', '--untracked-files=no') === ''
  const command = [
    'npm run bench',
    ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : []),
  ].join(' ')
  return `\`${command}\`

${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, commit ${git('rev-parse', '--short', 'HEAD')}${isClean ? '' : ', with changes'}. ${cpus().length} cores (${cpus()[0]?.model.trim()}), Linux ${release()}, Node.js ${node}, ${postgresVersion}, ${generator}. ${connections} connections, a pool of ${poolSize}; ${processes} processes of each target, in each of them ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up.`
}

function createReport({ facts, results }: Run): string {
  const comparison = createComparison(results)
  const sections = workloads.flatMap((workload) => {
    const measured = results[workload.name]
    return measured ? [createSection(workload, measured)] : []
  })
  return `${[
    '# Results',
    'The CPU time of a request to this service, with authentication, access rules, limits, validation, conditional headers, envelopes and events, compared with hand-written servers and with other frameworks. [README.md](README.md) describes the method, the workloads and the targets.',
    facts,
    ...(comparison === '' ? [] : ['## Goals', LEGEND, comparison]),
    '![CPU time per request](results.svg)',
    'The tables have the median of the rounds, with quartiles. Memory is the largest resident size of the server while it answered this workload. Core is the share of core 0 that the server used: only near 100 % does the server itself limit the requests per second.',
    ...sections,
  ].join('\n\n')}\n`
}

const RESULTS_FILE = 'results.json'

/** Writes RESULTS.md and results.svg. */
export function writeReport(folder: string, run: Run): void {
  writeFileSync(join(folder, 'RESULTS.md'), createReport(run))
  writeFileSync(join(folder, 'results.svg'), createPlot(run.results))
}

/** Writes results.json, RESULTS.md and results.svg. */
export function writeRun(folder: string, run: Run): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, RESULTS_FILE), `${JSON.stringify(run)}\n`)
  writeReport(folder, run)
}

export const readRun = (folder: string): Run => JSON.parse(readFileSync(join(folder, RESULTS_FILE), 'utf8'))
