/** The figures as bars in SVG: CPU for a request, the server's dark, PostgreSQL's light. */
import type { Measured } from './measure.ts'
import type { Results } from './report.ts'
import { spreadOf } from './statistics.ts'
import { ours, targets } from './targets/index.ts'
import { workloads } from './workloads.ts'

const LABEL = 170
const BAR = 18
const GAP = 6
const HEAD = 34
const SCALE = 330
const WIDTH = LABEL + SCALE + 130
const COLUMNS = 2

const plainText = (content: string) => content.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)

const text = (x: number, y: number, content: string, more = '') =>
  `<text x="${x}" y="${y}" ${more}>${plainText(content)}</text>`

const rect = (x: number, y: number, width: number, fill: string) =>
  `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" fill="${fill}"/>`

const COLOURS = { ours: ['#1a6f5a', '#9ccfc0'], others: ['#4a5568', '#cbd2dc'] } as const

interface Bar {
  title: string
  isOurs: boolean
  server: number
  postgres: number
}

const median = (rounds: readonly Measured[], figure: (measured: Measured) => number) =>
  spreadOf(rounds.map(figure)).median

function barsOf(figures: ReadonlyMap<string, readonly Measured[]>): Bar[] {
  return targets.flatMap(({ name, title }) => {
    const rounds = figures.get(name)
    if (!rounds) return []
    const server = median(rounds, (each) => each.server)
    const postgres = median(rounds, (each) => each.postgres)
    return [{ title, isOurs: ours.includes(name), server, postgres }]
  })
}

function panel(title: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ server, postgres }) => server + postgres))
  const rows = bars.map(({ title: label, isOurs, server, postgres }, i) => {
    const y = HEAD + i * (BAR + GAP)
    const [dark, light] = isOurs ? COLOURS.ours : COLOURS.others
    const [first, second] = [(server / most) * SCALE, (postgres / most) * SCALE]
    const figures = `${server.toFixed(0)} + ${postgres.toFixed(0)} us`
    return [
      text(LABEL - 8, y + 13, label, 'text-anchor="end"'),
      rect(LABEL, y, first, dark),
      rect(LABEL + first, y, second, light),
      text(LABEL + first + second + 6, y + 13, figures, 'font-size="11"'),
    ].join('')
  })
  return text(LABEL, 20, title, 'font-weight="bold"') + rows.join('')
}

/** A panel for each workload, each on a scale of its own. */
export function plot(results: Results): string {
  const panels = workloads.flatMap(({ name, title }) => {
    const figures = results.get(name)
    return figures ? [{ title: `${name} ${title}`, bars: barsOf(figures) }] : []
  })
  const most = Math.max(0, ...panels.map(({ bars }) => bars.length))
  const height = HEAD + most * (BAR + GAP) + 14
  const rows = Math.ceil(panels.length / COLUMNS)
  const placed = panels.map(({ title, bars }, i) => {
    const [x, y] = [(i % COLUMNS) * WIDTH, 30 + Math.floor(i / COLUMNS) * height]
    return `<g transform="translate(${x} ${y})">${panel(title, bars)}</g>`
  })
  const [width, tall] = [WIDTH * Math.min(COLUMNS, panels.length), 30 + rows * height]
  const legend = 'CPU for a request, in microseconds: server (dark) + PostgreSQL (light); less is better'
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${tall}" viewBox="0 0 ${width} ${tall}" font-family="sans-serif" font-size="12" fill="#1c2430">
<title>CPU for a request, by workload and target</title>
<rect width="100%" height="100%" fill="#fff"/>
${text(16, 22, legend, 'font-size="13"')}
${placed.join('\n')}
</svg>
`
}
