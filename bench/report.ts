/** Formats the results as tables in Markdown. */
import { execFileSync } from 'node:child_process'
import { cpus, release } from 'node:os'
import type { Measurement } from './measure.ts'
import type { Options } from './options.ts'
import { computeSpread, type Spread } from './statistics.ts'
import { peerTargets, serviceTargets, targets } from './targets/index.ts'
import { type Workload, workloads } from './workloads.ts'

/** The measurements of each round, by workload and then by target. */
export type Results = Map<string, Map<string, Measurement[]>>

type TargetResults = ReadonlyMap<string, readonly Measurement[]>

const REFERENCE = 'reference'
/** The share of its core from which a server counts as limited by it. */
const SATURATED_SHARE = 0.95

const getTitle = (name: string) => targets.find((target) => target.name === name)?.title ?? name

const computeRoundSpread = (
  rounds: readonly Measurement[] | undefined,
  figure: (measurement: Measurement) => number,
): Spread => computeSpread((rounds ?? []).map(figure))

const formatNumber = (number: number, places: number) =>
  number.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })

const formatSpread = ({ median, min, max }: Spread, places: number) =>
  `${formatNumber(median, places)} (${formatNumber(min, places)}-${formatNumber(max, places)})`

const formatRow = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

const formatTable = (heading: readonly string[], rows: readonly string[][]) =>
  [
    formatRow(heading),
    formatRow(heading.map((_, i) => (i === 0 ? '---' : '---:'))),
    ...rows.map(formatRow),
  ].join('\n')

/** Compares a target with the reference round by round, which cancels disturbances that slow both. */
function compareWithReference(
  results: TargetResults,
  name: string,
  figure: (reference: Measurement, measurement: Measurement) => number,
): Spread {
  const references = results.get(REFERENCE) ?? []
  const shares = (results.get(name) ?? []).flatMap((measurement, i) => {
    const reference = references[i]
    return reference ? [figure(reference, measurement)] : []
  })
  return computeSpread(shares)
}

const getRate = ({ requests, seconds }: Measurement) => requests / seconds

/** Returns the rate share, or an empty cell if one of the servers was not limited by its core. */
function formatRateShare(results: TargetResults, name: string): string {
  const areSaturated = [REFERENCE, name].every(
    (each) => computeRoundSpread(results.get(each), ({ busy }) => busy).median >= SATURATED_SHARE,
  )
  if (!areSaturated) return ''
  const share = compareWithReference(results, name, (a, b) => getRate(b) / getRate(a))
  return formatNumber(share.median, 2)
}

const getMedianCpu = (results: TargetResults, name: string) =>
  computeRoundSpread(results.get(name), ({ server }) => server).median

function formatNearestPeer(results: TargetResults, name: string): string {
  const [nearest] = peerTargets
    .filter((peer) => results.has(peer))
    .sort((a, b) => getMedianCpu(results, a) - getMedianCpu(results, b))
  if (nearest === undefined) return ''
  const factor = getMedianCpu(results, nearest) / getMedianCpu(results, name)
  return `${formatNumber(factor, 2)} ${getTitle(nearest)}`
}

function createGoalRow({ name, title, goal }: Workload, results: TargetResults, target: string): string[] {
  const share = compareWithReference(results, target, (a, b) => a.server / b.server)
  return [
    `${name} ${title}`,
    getTitle(target),
    formatNumber(goal, 2),
    formatSpread(share, 2),
    share.median >= goal ? 'yes' : 'no',
    formatRateShare(results, target),
    formatNearestPeer(results, target),
  ]
}

/** Explains the columns of the goal table. */
export const LEGEND =
  'Targets named `ours` are this service. CPU share: CPU time per request of the reference divided by that of the target; 1 means equal, more is better; median (minimum-maximum) of the rounds. Rate share: requests per second of the target divided by those of the reference, if both servers used their core fully. Nearest peer: the CPU time of the cheapest peer divided by that of the target.'

/** Compares this service with the reference. Returns an empty string if the reference was not measured. */
export function createGoalTable(results: Results): string {
  const rows = workloads.flatMap((workload) => {
    const targetResults = results.get(workload.name)
    if (!targetResults?.has(REFERENCE)) return []
    return serviceTargets
      .filter((target) => targetResults.has(target))
      .map((target) => createGoalRow(workload, targetResults, target))
  })
  if (rows.length === 0) return ''
  const heading = ['Workload', 'Target', 'Goal', 'CPU share', 'Reached', 'Rate share', 'Nearest peer']
  return formatTable(heading, rows)
}

/** Returns a section for each workload with the results of all targets. */
export const createSections = (results: Results): string[] =>
  workloads.flatMap((workload) => {
    const targetResults = results.get(workload.name)
    return targetResults ? [createSection(workload, targetResults)] : []
  })

function createSection({ name, title }: Workload, results: TargetResults): string {
  const rows = [...results].map(([target, rounds]) => {
    const getSpread = (figure: (measurement: Measurement) => number) => computeRoundSpread(rounds, figure)
    return [
      getTitle(target),
      formatSpread(getSpread(getRate), 0),
      formatSpread(
        getSpread(({ server }) => server),
        1,
      ),
      formatSpread(
        getSpread(({ postgres }) => postgres),
        1,
      ),
      `${formatNumber(getSpread(({ busy }) => busy).median * 100, 0)} %`,
      formatNumber(getSpread(({ p50 }) => p50).median, 1),
      formatNumber(getSpread(({ p99 }) => p99).median, 1),
      String(rounds.reduce((sum, { refused, broken }) => sum + refused + broken, 0)),
    ]
  })
  const heading = [
    'Target',
    'Requests/s',
    'Server, us',
    'PostgreSQL, us',
    'Core',
    'p50, ms',
    'p99, ms',
    'Failed',
  ]
  return `## ${name}: ${title}\n\n${formatTable(heading, rows)}\n`
}

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()

/** Describes the command, the commit, the machine, the versions and the options of a run. */
export function describeRun(options: Options, postgresVersion: string): string {
  const { generator, rounds, seconds, warmup, connections, poolSize } = options
  const node = execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim()
  const isClean = git('status', '--porcelain', '--untracked-files=no') === ''
  const command = [
    'npm run bench',
    ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : []),
  ].join(' ')
  return `\`${command}\`

${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, commit ${git('rev-parse', '--short', 'HEAD')}${isClean ? '' : ', with changes'}. ${cpus().length} cores (${cpus()[0]?.model.trim()}), Linux ${release()}, Node.js ${node}, ${postgresVersion}, ${generator}. ${connections} connections, a pool of ${poolSize}; ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up. Median (minimum-maximum) of the rounds; CPU time from /proc.
`
}

export function createReport(results: Results, facts: string): string {
  const goalTable = createGoalTable(results)
  return [
    '# Results\n',
    facts,
    '![CPU time per request](results.svg)\n',
    ...(goalTable === '' ? [] : [`## Compared with the reference\n\n${LEGEND}\n\n${goalTable}\n`]),
    ...createSections(results),
  ].join('\n')
}
