/** The figures as tables in Markdown. */
import { execFileSync } from 'node:child_process'
import { cpus, release } from 'node:os'
import type { Measured } from './measure.ts'
import type { Options } from './options.ts'
import { type Spread, spreadOf } from './statistics.ts'
import { ours, peers, targets } from './targets/index.ts'
import { type Workload, workloads } from './workloads.ts'

/** By workload, then by target, a figure for each round. */
export type Results = Map<string, Map<string, Measured[]>>

type Figures = ReadonlyMap<string, readonly Measured[]>

const REFERENCE = 'reference'
/** From here on a server has no more of its core to take. */
const FULL = 0.95

const titleOf = (name: string) => targets.find((target) => target.name === name)?.title ?? name

const over = (rounds: readonly Measured[] | undefined, figure: (measured: Measured) => number): Spread =>
  spreadOf((rounds ?? []).map(figure))

const digits = (number: number, places: number) =>
  number.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })

const spread = ({ median, least, most }: Spread, places: number) =>
  `${digits(median, places)} (${digits(least, places)}-${digits(most, places)})`

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

const grid = (head: readonly string[], rows: readonly string[][]) =>
  [row(head), row(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(row)].join('\n')

/** The reference's figure as a share of another's, round by round: what shook both drops out. */
function shares(
  figures: Figures,
  of: string,
  figure: (reference: Measured, measured: Measured) => number,
): Spread {
  const references = figures.get(REFERENCE) ?? []
  const pairs = (figures.get(of) ?? []).flatMap((measured, i) => {
    const reference = references[i]
    return reference ? [figure(reference, measured)] : []
  })
  return spreadOf(pairs)
}

const rate = ({ requests, seconds }: Measured) => requests / seconds

function throughput(figures: Figures, name: string): string {
  const isFull = [REFERENCE, name].every((each) => over(figures.get(each), ({ busy }) => busy).median >= FULL)
  return isFull ? digits(shares(figures, name, (a, b) => rate(b) / rate(a)).median, 2) : ''
}

const cpu = (figures: Figures, name: string) => over(figures.get(name), ({ server }) => server).median

/** What there is to say of one of ours under one workload. */
function verdict({ name, title, goal }: Workload, figures: Figures, own: string): string[] {
  const share = shares(figures, own, (a, b) => a.server / b.server)
  const best = peers.filter((peer) => figures.has(peer)).sort((a, b) => cpu(figures, a) - cpu(figures, b))[0]
  const ahead =
    best === undefined ? '' : `${digits(cpu(figures, best) / cpu(figures, own), 2)} ${titleOf(best)}`
  return [
    `${name} ${title}`,
    titleOf(own),
    digits(goal, 2),
    spread(share, 2),
    share.median >= goal ? 'yes' : 'no',
    throughput(figures, own),
    ahead,
  ]
}

/** What the columns of the goals say. */
export const LEGEND =
  "CPU share: the CPU time of the reference per request, divided by ours; 1 is equal, more is better; median (minimum-maximum) of the rounds. Rate share: our requests per second, divided by those of the reference, if the server's core was fully used by both. Nearest peer: its CPU time, divided by ours."

/** Ours beside the reference; nothing where that was not measured. */
export function goals(results: Results): string {
  const rows = workloads.flatMap((workload) => {
    const figures = results.get(workload.name)
    if (!figures?.has(REFERENCE)) return []
    return ours.filter((own) => figures.has(own)).map((own) => verdict(workload, figures, own))
  })
  if (rows.length === 0) return ''
  const head = ['Workload', 'Target', 'Goal', 'CPU share', 'Reached', 'Rate share', 'Nearest peer']
  return grid(head, rows)
}

/** What every target did, workload by workload. */
export const sections = (results: Results): string[] =>
  workloads.flatMap((workload) => {
    const figures = results.get(workload.name)
    return figures ? [section(workload, figures)] : []
  })

function section({ name, title }: Workload, figures: Figures): string {
  const rows = [...figures].map(([target, rounds]) => [
    titleOf(target),
    spread(over(rounds, rate), 0),
    spread(
      over(rounds, ({ server }) => server),
      1,
    ),
    spread(
      over(rounds, ({ postgres }) => postgres),
      1,
    ),
    `${digits(over(rounds, ({ busy }) => busy).median * 100, 0)} %`,
    digits(over(rounds, ({ p50 }) => p50).median, 1),
    digits(over(rounds, ({ p99 }) => p99).median, 1),
    String(rounds.reduce((sum, { refused, broken }) => sum + refused + broken, 0)),
  ])
  const head = [
    'Target',
    'Requests/s',
    'Server, us',
    'PostgreSQL, us',
    'Core',
    'p50, ms',
    'p99, ms',
    'Failed',
  ]
  return `## ${name}: ${title}\n\n${grid(head, rows)}\n`
}

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()

/** Where and how it was measured. */
export function machine(options: Options, postgres: string): string {
  const { generator, rounds, seconds, warmup, connections, poolSize } = options
  const node = execFileSync(options.node, ['--version'], { encoding: 'utf8' }).trim()
  const changed = git('status', '--porcelain', '--untracked-files=no') === '' ? '' : ', with changes'
  const command = [
    'npm run bench',
    ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : []),
  ].join(' ')
  return `\`${command}\`

${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, commit ${git('rev-parse', '--short', 'HEAD')}${changed}. ${cpus().length} cores (${cpus()[0]?.model.trim()}), Linux ${release()}, Node.js ${node}, ${postgres}, ${generator}. ${connections} connections, a pool of ${poolSize}; ${rounds} rounds of ${seconds} s, after ${warmup} s. Median (minimum-maximum) of the rounds; CPU from /proc.
`
}

export function table(results: Results, facts: string): string {
  const reached = goals(results)
  return [
    '# Results\n',
    facts,
    '![CPU time of a request](results.svg)\n',
    ...(reached === '' ? [] : [`## Against the reference\n\n${LEGEND}\n\n${reached}\n`]),
    ...sections(results),
  ].join('\n')
}
