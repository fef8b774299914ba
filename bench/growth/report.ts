/** The table of how cost grows, and what of it is held against the aims. */
import { cpus } from 'node:os'
import type { Measured } from './measure.ts'

export interface Grown {
  users: number
  rows: number
  /** Bytes of the database. */
  bytes: number
  measured: readonly Measured[]
}

/** How much more than on the smallest a page or a read by id may touch. */
const MOST = 1.2

const count = (value: number) => value.toLocaleString('en')

const keyOf = ({ actor, collection, label }: Measured) => `${actor}|${collection}|${label}`

interface Line {
  of: Measured
  /** By size; undefined where it was not asked. */
  at: readonly (Measured | undefined)[]
}

function linesOf(grown: readonly Grown[]): Line[] {
  const bySize = grown.map(({ measured }) => new Map(measured.map((each) => [keyOf(each), each])))
  const labels = new Map(grown.flatMap(({ measured }) => measured.map((each) => [keyOf(each), each])))
  return [...labels.values()].map((of) => ({ of, at: bySize.map((found) => found.get(keyOf(of))) }))
}

const ratio = (line: Line, from = 0): number | undefined => {
  const [small, large] = [line.at[from]?.buffers, line.at.at(-1)?.buffers]
  return small && large !== undefined ? large / small : undefined
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

function cellsOf(line: Line): string[] {
  const buffers = line.at.map((each) => (each?.buffers === undefined ? '–' : count(each.buffers)))
  const times = line.at.map((each) => {
    if (!each) return '–'
    return each.status === 503 ? `503 after ${each.milliseconds.toFixed(0)}` : each.milliseconds.toFixed(1)
  })
  const grown = ratio(line)
  const ways = [...new Set(line.at.at(-1)?.ways ?? [])].map((way) => `\`${way}\``)
  return [line.of.label, ...buffers, grown === undefined ? '–' : grown.toFixed(2), ...times, ways.join(' ')]
}

function tableOf(lines: readonly Line[], sizes: readonly string[]): string {
  const heads = [
    'Request',
    ...sizes.map((size) => `Buffers, ${size}`),
    '×',
    ...sizes.map((size) => `ms, ${size}`),
    'Plan nodes and indexes',
  ]
  const rule = heads.map((head) => (head === 'Request' || head === 'Plan nodes and indexes' ? '---' : '--:'))
  return [row(heads), row(rule), ...lines.map((line) => row(cellsOf(line)))].join('\n')
}

/** Those that must not grow, and do. */
function flatness(lines: readonly Line[], sizes: readonly string[]): string {
  const flat = lines.filter(({ of }) => of.isFlat)
  const sections = sizes.slice(0, -1).map((size, from) => {
    const known = flat.filter((line) => ratio(line, from) !== undefined)
    const over = known.filter((line) => (ratio(line, from) ?? 0) > MOST)
    const named = over.map((line) => {
      const [small, large] = [line.at[from]?.buffers, line.at.at(-1)?.buffers]
      return `${line.of.actor}, ${line.of.collection}, ${line.of.label} (${small} → ${large})`
    })
    return `- From ${size} to ${sizes.at(-1)} users: ${known.length - over.length} of ${known.length} increase by a factor of at most ${MOST}${
      named.length > 0 ? `; beyond: ${named.join('; ')}` : ''
    }.`
  })
  return sections.join('\n')
}

export function report(
  grown: readonly Grown[],
  about: { version: string; load: string; notes: string },
): string {
  const sizes = grown.map(({ users }) => count(users))
  const lines = linesOf(grown)
  const tables = (['admin', 'member'] as const).flatMap((actor) => {
    const own = lines.filter(({ of }) => of.actor === actor)
    return [...new Set(own.map(({ of }) => of.collection))].map(
      (collection) =>
        `### ${collection}, ${actor}\n\n${tableOf(
          own.filter(({ of }) => of.collection === collection),
          sizes,
        )}`,
    )
  })
  const data = grown.map(({ users, rows, bytes }) =>
    row([count(users), count(rows), `${(bytes / 2 ** 30).toFixed(2)} GiB`]),
  )
  return `# How cost grows

Written by \`npm run bench:growth\`; [README.md](README.md) explains the method. ${about.version}, ${
    cpus()[0]?.model ?? 'unknown CPU'
  } × ${cpus().length}, load ${about.load}.

| Users | Rows | Database |
|--:|--:|--:|
${data.join('\n')}

Buffers are the pages of tables and indexes that the statements of a request touch, from \`EXPLAIN (ANALYZE, BUFFERS)\`: exact, and the same on any machine. Milliseconds are the median of whole requests over HTTP, on a machine with other work. × is the buffers of the last size, divided by those of the first.

## Cursor pages and reads by id

${flatness(lines, sizes)}

${about.notes}

## Every request

${tables.join('\n\n')}
`
}
