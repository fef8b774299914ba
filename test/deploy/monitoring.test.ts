/** The alert rules, the Grafana dashboard and the systemd unit: checked by their own tools, and against the metrics that exist. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { testApp } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'

const getPath = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const rulesFile = getPath('../../deploy/prometheus/alerts.yaml')
const dashboard = JSON.parse(readFileSync(getPath('../../deploy/grafana/resource-api.json'), 'utf8'))

/** Returns the expressions of the rules and of the dashboard. */
function readExpressions(): string[] {
  const { groups }: { groups: { rules: { expr: string }[] }[] } = parse(readFileSync(rulesFile, 'utf8'))
  const panels: { targets?: { expr: string }[] }[] = dashboard.panels
  return [
    ...groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ]
}

t.test('promtool accepts the rules, and each alert fires when it should', (t) => {
  for (const args of [
    ['check', 'rules', rulesFile],
    ['test', 'rules', getPath('alerts-test.yaml')],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' })
    t.equal(status, 0, `${stdout}${stderr}`)
  }
  t.end()
})

t.test('every alert has a test', (t) => {
  const names = (file: string, key: RegExp) => [
    ...new Set([...readFileSync(file, 'utf8').matchAll(key)].map(([, name]) => name)),
  ]
  t.same(names(getPath('alerts-test.yaml'), /alertname: (\w+)/g), names(rulesFile, /alert: (\w+)/g))
  t.end()
})

t.test('every metric of the rules and of the dashboard exists', async (t) => {
  const operations = readFileSync(getPath('../../docs/operations.md'), 'utf8')
  // These exist only with replicas; the page has them, and test/operations/metrics.test.ts checks the page.
  const documented = [...operations.matchAll(/`(database_replica_\w+|database_reads_total)`/g)].map(
    ([, name]) => name,
  )
  const { app } = await testApp(t, { METRICS_TOKEN: 'metrics-token-metrics-token' })
  const metrics = await app.metrics?.getMetricsAsJSON()
  // Prometheus itself makes `up`.
  const known = new Set(['up', ...documented, ...(metrics ?? []).map(({ name }) => name)])
  const named = readExpressions().flatMap((expression) =>
    [
      ...expression.replace(/"[^"]*"|by \([^)]*\)|\$__\w+/g, '').matchAll(/\b[a-z]+(_[a-z0-9]+)+\b|\bup\b/g),
    ].map(([name]) => name.replace(/_(bucket|sum|count)$/, '')),
  )
  t.ok(named.length > 30)
  const functions = ['histogram_quantile']
  t.same(
    [...new Set(named)].filter((name) => !known.has(name) && !functions.includes(name)),
    [],
  )
})

t.test('promtool can parse every expression of the dashboard', (t) => {
  const groups = [
    {
      name: 'dashboard',
      rules: readExpressions().map((expression, i) => ({
        record: `panel_${i}`,
        expr: expression.replaceAll('$__rate_interval', '5m'),
      })),
    },
  ]
  // JSON is YAML.
  const file = join(testFolder(t), 'rules.yaml')
  writeFileSync(file, JSON.stringify({ groups }))
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' })
  t.equal(status, 0, `${stdout}${stderr}`)
  t.end()
})

t.test('no panels of the dashboard overlap, and each has an id of its own', (t) => {
  const panels: { id: number; gridPos: { x: number; y: number; w: number; h: number } }[] = dashboard.panels
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
  )
  t.equal(new Set(cells).size, cells.length)
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  t.end()
})

t.test('systemd accepts the unit and rates it as well protected', (t) => {
  const unit = getPath('../../deploy/systemd/resource-api.service')
  // `verify` also reports that this machine has no such program or folder.
  const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' })
  t.same(
    `${stdout}${stderr}`
      .split('\n')
      .filter((line) => /resource-api\.service/.test(line) && !/not executable|No such file/.test(line)),
    [],
  )
  const security = spawnSync('systemd-analyze', ['security', '--offline=yes', '--threshold=20', unit], {
    encoding: 'utf8',
  })
  t.equal(security.status, 0, security.stdout)
  t.end()
})
