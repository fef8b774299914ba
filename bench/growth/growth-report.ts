/** Formats the growth measurements as a Markdown report, and lists the requests whose cost exceeds the limit. */
import { cpus } from 'node:os'
import type { RequestMeasurement } from './measure-growth.ts'

/** The measurements at one size of the data. */
export interface SizeResult {
  users: number
  rows: number
  /** The size of the database in bytes. */
  bytes: number
  requests: readonly RequestMeasurement[]
}

/** The factor by which the buffers of a cursor page or of a read by id may grow. */
const MAX_BUFFER_GROWTH = 1.2

const formatCount = (value: number) => value.toLocaleString('en')

const toKey = ({ actor, collection, label }: RequestMeasurement) => `${actor}|${collection}|${label}`

interface ReportLine {
  request: RequestMeasurement
  /** The measurements of the request, one for each size; undefined if the request was not measured. */
  bySize: readonly (RequestMeasurement | undefined)[]
}

function createLines(sizes: readonly SizeResult[]): ReportLine[] {
  const maps = sizes.map(({ requests }) => new Map(requests.map((request) => [toKey(request), request])))
  const distinct = new Map(maps.flatMap((map) => [...map]))
  return [...distinct].map(([key, request]) => ({ request, bySize: maps.map((map) => map.get(key)) }))
}

const computeBufferGrowth = ({ bySize }: ReportLine, from = 0): number | undefined => {
  const [small, large] = [bySize[from]?.buffers, bySize.at(-1)?.buffers]
  return small && large !== undefined ? large / small : undefined
}

const formatRow = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

function createCells(line: ReportLine): string[] {
  const { request, bySize } = line
  const buffers = bySize.map((each) => (each?.buffers === undefined ? '–' : formatCount(each.buffers)))
  const times = bySize.map((each) => {
    if (!each) return '–'
    return each.status === 503 ? `503 after ${each.milliseconds.toFixed(0)}` : each.milliseconds.toFixed(1)
  })
  const growth = computeBufferGrowth(line)
  const scans = [...new Set(bySize.at(-1)?.scans ?? [])].map((scan) => `\`${scan}\``)
  return [
    request.label,
    ...buffers,
    growth === undefined ? '–' : growth.toFixed(2),
    ...times,
    scans.join(' '),
  ]
}

function createTable(lines: readonly ReportLine[], sizes: readonly string[]): string {
  const headings = [
    'Request',
    ...sizes.map((size) => `Buffers, ${size}`),
    '×',
    ...sizes.map((size) => `ms, ${size}`),
    'Indexes, scans and sorts',
  ]
  const alignments = headings.map((_, i) => (i === 0 || i === headings.length - 1 ? '---' : '--:'))
  return [
    formatRow(headings),
    formatRow(alignments),
    ...lines.map((line) => formatRow(createCells(line))),
  ].join('\n')
}

/** Lists the requests whose cost must not grow, but does. */
function createGrowthSummary(lines: readonly ReportLine[], sizes: readonly string[]): string {
  const constantLines = lines.filter(({ request }) => request.hasConstantCost)
  const sections = sizes.slice(0, -1).map((size, from) => {
    const measured = constantLines.filter((line) => computeBufferGrowth(line, from) !== undefined)
    const exceeding = measured.filter((line) => (computeBufferGrowth(line, from) ?? 0) > MAX_BUFFER_GROWTH)
    const names = exceeding.map(({ request, bySize }) => {
      const [small, large] = [bySize[from]?.buffers, bySize.at(-1)?.buffers]
      return `${request.actor}, ${request.collection}, ${request.label} (${small} → ${large})`
    })
    const summary = `${measured.length - exceeding.length} of ${measured.length} within ${MAX_BUFFER_GROWTH}`
    const list = names.length > 0 ? `; above: ${names.join('; ')}` : ''
    return `- From ${size} to ${sizes.at(-1)} users: ${summary}${list}.`
  })
  return sections.join('\n')
}

/** Returns a table for each collection and actor. */
function createTables(lines: readonly ReportLine[], sizes: readonly string[]): string[] {
  return (['admin', 'member'] as const).flatMap((actor) => {
    const ofActor = lines.filter(({ request }) => request.actor === actor)
    const collections = [...new Set(ofActor.map(({ request }) => request.collection))]
    return collections.map((collection) => {
      const ofCollection = ofActor.filter(({ request }) => request.collection === collection)
      return `### ${collection}, ${actor}\n\n${createTable(ofCollection, sizes)}`
    })
  })
}

export function createGrowthReport(
  results: readonly SizeResult[],
  { version, load, notes }: { version: string; load: string; notes: string },
): string {
  const sizes = results.map(({ users }) => formatCount(users))
  const lines = createLines(results)
  const sizeRows = results.map(({ users, rows, bytes }) =>
    formatRow([formatCount(users), formatCount(rows), `${(bytes / 2 ** 30).toFixed(2)} GiB`]),
  )
  const cpu = `${cpus()[0]?.model ?? 'unknown CPU'} × ${cpus().length}`
  return `# Cost of requests as the data grows

Written by \`npm run bench:growth\`; [README.md](README.md) describes the method. ${version}, ${cpu}, load average ${load}.

| Users | Rows | Database |
|--:|--:|--:|
${sizeRows.join('\n')}

Buffers are the pages of tables and indexes that the statements of a request touch, from \`EXPLAIN (ANALYZE, BUFFERS)\`: exact, and equal on any machine. Milliseconds are the median of whole requests over HTTP on a shared machine. × is the buffers at the largest size divided by those at the smallest.

## Cursor pages and reads by id

${createGrowthSummary(lines, sizes)}

${notes}

## Every request

${createTables(lines, sizes).join('\n\n')}
`
}
