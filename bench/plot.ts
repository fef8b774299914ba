/** Draws the CPU time per request as SVG bars: the server's part dark, PostgreSQL's part light. */
import type { Measurement, Results, WorkloadResults } from './measure.ts'
import { computeSpread } from './statistics.ts'
import { targets } from './targets/index.ts'
import { workloads } from './workloads.ts'

/** Pixels. */
const LABEL_WIDTH = 170
const BAR_HEIGHT = 18
const BAR_GAP = 6
const PANEL_TITLE_HEIGHT = 34
const MAX_BAR_WIDTH = 330
const PANEL_WIDTH = LABEL_WIDTH + MAX_BAR_WIDTH + 130
const COLUMNS = 2

const escapeText = (content: string) => content.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)

const createText = (x: number, y: number, content: string, attributes = '') =>
  `<text x="${x}" y="${y}" ${attributes}>${escapeText(content)}</text>`

const createBar = (x: number, y: number, width: number, fill: string) =>
  `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" fill="${fill}"/>`

const COLORS = { service: ['#1a6f5a', '#9ccfc0'], others: ['#4a5568', '#cbd2dc'] } as const

interface TargetCpu {
  title: string
  isService: boolean
  server: number
  postgres: number
}

const getMedian = (rounds: readonly Measurement[], figure: (measurement: Measurement) => number) =>
  computeSpread(rounds.map(figure)).median

function summarizeTargets(results: WorkloadResults): TargetCpu[] {
  return targets.flatMap(({ name, title, isService = false }) => {
    const rounds = results[name]?.flat()
    if (!rounds) return []
    const server = getMedian(rounds, (each) => each.server)
    const postgres = getMedian(rounds, (each) => each.postgres)
    return [{ title, isService, server, postgres }]
  })
}

function createPanel(title: string, bars: readonly TargetCpu[]): string {
  const longest = Math.max(...bars.map(({ server, postgres }) => server + postgres))
  const rows = bars.map(({ title: label, isService, server, postgres }, i) => {
    const y = PANEL_TITLE_HEIGHT + i * (BAR_HEIGHT + BAR_GAP)
    const [dark, light] = isService ? COLORS.service : COLORS.others
    const serverWidth = (server / longest) * MAX_BAR_WIDTH
    const postgresWidth = (postgres / longest) * MAX_BAR_WIDTH
    const figures = `${server.toFixed(0)} + ${postgres.toFixed(0)} us`
    return [
      createText(LABEL_WIDTH - 8, y + 13, label, 'text-anchor="end"'),
      createBar(LABEL_WIDTH, y, serverWidth, dark),
      createBar(LABEL_WIDTH + serverWidth, y, postgresWidth, light),
      createText(LABEL_WIDTH + serverWidth + postgresWidth + 6, y + 13, figures, 'font-size="11"'),
    ].join('')
  })
  return createText(LABEL_WIDTH, 20, title, 'font-weight="bold"') + rows.join('')
}

/** Returns an SVG document with a panel for each workload; each panel has its own scale. */
export function createPlot(results: Results): string {
  const panels = workloads.flatMap(({ name, title }) => {
    const measurements = results[name]
    return measurements ? [{ title: `${name} ${title}`, bars: summarizeTargets(measurements) }] : []
  })
  const maxBars = Math.max(0, ...panels.map(({ bars }) => bars.length))
  const panelHeight = PANEL_TITLE_HEIGHT + maxBars * (BAR_HEIGHT + BAR_GAP) + 14
  const rows = Math.ceil(panels.length / COLUMNS)
  const groups = panels.map(({ title, bars }, i) => {
    const [x, y] = [(i % COLUMNS) * PANEL_WIDTH, 30 + Math.floor(i / COLUMNS) * panelHeight]
    return `<g transform="translate(${x} ${y})">${createPanel(title, bars)}</g>`
  })
  const [width, height] = [PANEL_WIDTH * Math.min(COLUMNS, panels.length), 30 + rows * panelHeight]
  const legend = 'CPU time per request in microseconds: server (dark) + PostgreSQL (light); less is better'
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#1c2430">
<title>CPU time per request, by workload and target</title>
<rect width="100%" height="100%" fill="#fff"/>
${createText(16, 22, legend, 'font-size="13"')}
${groups.join('\n')}
</svg>
`
}
