/** The alert rules, the Grafana dashboard and the systemd unit: checked by their own tools, and against the metrics that exist. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { defineConsumer } from '../../plugins/consumers/definition.ts'
import { defineJob } from '../../plugins/jobs/definition.ts'
import { testApp } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'

const getPath = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const rulesFile = getPath('../../deploy/prometheus/alerts.yaml')
const unitFile = getPath('../../deploy/systemd/resource-api@.service')
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
  const page = readFileSync(getPath('../../docs/monitoring.md'), 'utf8')
  // These exist only with replicas; the page has them, and test/operations/metrics.test.ts checks the page.
  const documented = [...page.matchAll(/`(database_replica_\w+|database_reads_total)`/g)].map(
    ([, name]) => name,
  )
  // So do the metrics of jobs and consumers.
  const own = {
    jobs: [defineJob({ name: 'report', every: '1h', run: async () => {} })],
    consumers: [defineConsumer({ name: 'mails', types: ['users.*'], handle: async () => {} })],
  }
  const { app } = await testApp(t, { METRICS_TOKEN: 'metrics-token-metrics-token' }, { own })
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

/** Returns what systemd has against a unit, except that this machine has no such program or folder. */
function verifyUnit(unit: string): string[] {
  const { stdout, stderr, error } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], {
    encoding: 'utf8',
  })
  if (error) throw error
  return `${stdout}${stderr}`
    .split('\n')
    .filter((line) => /resource-api@/.test(line) && !/not executable|No such file/.test(line))
}

t.test('systemd accepts the unit and rates it as well protected', (t) => {
  t.same(verifyUnit(unitFile), [])
  const security = spawnSync('systemd-analyze', ['security', '--offline=yes', '--threshold=20', unitFile], {
    encoding: 'utf8',
  })
  t.equal(security.status, 0, security.stdout)

  const mistaken = join(testFolder(t), 'resource-api@.service')
  writeFileSync(mistaken, `${readFileSync(unitFile, 'utf8')}\n[Service]\nRestart=sometimes\n`)
  t.match(verifyUnit(mistaken), [/restart specifier/], 'a mistake in the unit is found')
  t.end()
})

t.test('each instance of the unit has the port of its name, and the ports are those of the proxies', (t) => {
  t.match(readFileSync(unitFile, 'utf8'), /^Environment=.*\bPORT=%i$/m)
  const readme = readFileSync(getPath('../../deploy/README.md'), 'utf8')
  const [, instances = ''] = /systemctl enable --now (resource-api@.*)/.exec(readme) ?? []
  const ports = instances.split(' ').map((name) => name.replace('resource-api@', ''))
  t.ok(ports.length > 1)
  for (const sample of ['nginx/resource-api.conf', 'caddy/Caddyfile', 'haproxy/haproxy.cfg']) {
    const text = readFileSync(getPath(`../../deploy/${sample}`), 'utf8')
    t.same(
      [...text.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => port),
      ports,
      sample,
    )
  }
  t.end()
})
