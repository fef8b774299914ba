/** The alert rules, the Grafana dashboard and the systemd unit: checked by their own tools, and against the metrics that exist. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { defineConsumer } from '../../packages/events/src/consumers/definition.ts'
import { defineJob } from '../../packages/events/src/jobs/definition.ts'
import { testApp } from '../../packages/testing/helpers/app.ts'
import { testFolder } from '../../packages/testing/helpers/database.ts'

const getPath = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const rulesFile = getPath('../prometheus/alerts.yaml')
const unitFile = getPath('../systemd/resource-api@.service')
const dashboard = JSON.parse(readFileSync(getPath('../grafana/resource-api.json'), 'utf8'))

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; description: string }
}

const { groups }: { groups: { rules: Rule[] }[] } = parse(readFileSync(rulesFile, 'utf8'))
const rules = groups.flatMap((group) => group.rules)

/** Returns the expressions of the rules and of the dashboard. */
function readExpressions(): string[] {
  const panels: { targets?: { expr: string }[] }[] = dashboard.panels
  return [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ]
}

/** The series of a healthy service, one value a minute, without the labels `job` and `instance`. */
const HEALTHY = {
  'http_requests_total{status="200"}': '0+600x30',
  'http_requests_total{status="501"}': '0+60x30',
  up: '1x30',
  database_up: '1x30',
  database_pool_waiting: '0 3 0 0 1 0x25',
  event_pending_age_seconds: '0 0.02 -1 0 0x26',
  'event_position_delay_seconds_bucket{le="0.05"}': '0+60x30',
  'event_position_delay_seconds_bucket{le="+Inf"}': '0+60x30',
  event_streams: '100x30',
  'event_streams_ended_total{reason="client"}': '0+60x30',
  // The server of one owner is dead: its deliveries fail, and its endpoint is disabled.
  webhook_longest_wait_seconds: '0 5 0 0x27',
  'webhook_owners{state="all"}': '2x30',
  'webhook_owners{state="failing"}': '2x30',
  'webhook_attempts_total{result="failed"}': '0+180x30',
  'webhook_attempts_total{result="succeeded"}': '0+60x30',
  'webhook_deliveries_total{result="failed"}': '0+2x30',
  webhook_endpoints_disabled: '0x25 1x5',
  'job_failures{name="report"}': '0x30',
  'job_next_run_timestamp_seconds{name="report"}': '3600x30',
  // An event is handled at the third attempt, and one process has read the state a minute ago.
  'consumer_failures{name="mails"}': '0 1 2 0x27',
  'consumer_lag_events{name="mails"}': '2000x30',
  'consumer_lag_events{name="mails", instance="b"}': '3x30',
}

const IN_TROUBLE = {
  'http_requests_total{status="200"}': '0+600x30',
  'http_requests_total{status="500"}': '0+600x30',
  'http_request_duration_seconds_bucket{le="1"}': '0x30',
  'http_request_duration_seconds_bucket{le="3"}': '0+60x30',
  'http_request_duration_seconds_bucket{le="+Inf"}': '0+60x30',
  up: '0x30',
  database_up: '0x30',
  database_pool_waiting: '4x30',
  nodejs_eventloop_lag_p99_seconds: '0.2x30',
  'overload_refused_total{reason="line"}': '0+60x30',
  'database_replica_up{replica="1"}': '0x30',
  rate_limit_store_up: '0x30',
  'authentication_failures_total{kind="password"}': '0+120x30',
  http_connections_dropped_total: '0+1x30',
  event_pending_age_seconds: '60x30',
  event_streams: '950x30',
  'event_streams_ended_total{reason="unread"}': '0+60x30',
  webhook_longest_wait_seconds: '300x30',
  'webhook_owners{state="all"}': '4x30',
  'webhook_owners{state="failing"}': '3x30',
  'event_position_delay_seconds_bucket{le="1"}': '0x30',
  'event_position_delay_seconds_bucket{le="5"}': '0+60x30',
  'event_position_delay_seconds_bucket{le="+Inf"}': '0+60x30',
  mail_longest_wait_seconds: '0+60x30',
  'job_failures{name="report"}': '0 1x29',
  'job_next_run_timestamp_seconds{name="report"}': '0x60',
  'consumer_failures{name="mails"}': '0 1 2 3 4 5x55',
  'consumer_lag_events{name="mails"}': '2000x60',
  'consumer_lag_events{name="mails", instance="b"}': '1500x60',
}

const instance = { instance: 'a' }
/** What fires for a service in trouble: the minute, the labels besides job and severity, and the value as it is shown. */
const ALERTS: Record<string, [minute: number, labels: Record<string, string>, value?: string]> = {
  ResourceApiErrors: [30, {}, '50%'],
  ResourceApiSlow: [30, {}, '2.98s'],
  ResourceApiDown: [30, instance],
  ResourceApiDatabaseDown: [30, instance],
  ResourceApiDatabasePoolExhausted: [30, instance],
  ResourceApiProcessorBound: [30, instance, '200ms'],
  ResourceApiOverloaded: [30, instance, '1'],
  ResourceApiReplicaDown: [30, { ...instance, replica: '1' }],
  ResourceApiRateLimitStoreDown: [30, instance],
  ResourceApiCredentialGuessing: [30, { kind: 'password' }, '2'],
  ResourceApiConnectionsDropped: [30, instance],
  ResourceApiEventsStopped: [30, {}, '1m 0s'],
  ResourceApiEventsDelayed: [30, {}, '4.96s'],
  ResourceApiEventStreamsFull: [30, instance, '950'],
  ResourceApiEventStreamsBroken: [30, { reason: 'unread' }, '1'],
  ResourceApiWebhooksLate: [30, {}, '5m 0s'],
  ResourceApiWebhooksFailing: [30, {}, '75%'],
  ResourceApiMailsLate: [25, {}, '25m 0s'],
  ResourceApiJobFailing: [20, { name: 'report' }, '1'],
  ResourceApiJobLate: [40, { name: 'report' }, '40m 0s'],
  ResourceApiConsumerFailing: [20, { name: 'mails' }, '5'],
  ResourceApiConsumerBehind: [20, { name: 'mails' }, '1500'],
}

/** The input of `promtool test rules`. */
function createRuleTests() {
  const toSeries = (values: Record<string, string>) =>
    Object.entries(values).map(([name, each]) => {
      const [, metric, labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(name) ?? []
      const own = labels.includes('instance=') ? labels : `instance="a", ${labels}`
      return { series: `${metric}{job="resource-api", ${own}}`, values: each }
    })
  const silent = (alertname: string, minute: number) => ({
    ...{ alertname, eval_time: `${minute}m`, exp_alerts: [] },
  })
  const firing = ({ alert, labels, annotations }: Rule) => {
    const [minute = 0, own = {}, value = 'no value'] = ALERTS[alert] ?? []
    const description = annotations.description
      .replace(/\{\{ \$labels\.(\w+) \}\}/g, (_, name) => own[name] ?? 'no label')
      .replace(/\{\{ \$value[^}]* \}\}/g, value)
    const exp_labels = { job: 'resource-api', ...labels, ...own }
    const exp_annotations = { ...annotations, description }
    return { alertname: alert, eval_time: `${minute}m`, exp_alerts: [{ exp_labels, exp_annotations }] }
  }
  return {
    rule_files: [rulesFile],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: toSeries(HEALTHY),
        alert_rule_test: rules.map(({ alert }) => silent(alert, 30)),
      },
      {
        interval: '1m',
        input_series: toSeries(IN_TROUBLE),
        alert_rule_test: [silent('ResourceApiMailsLate', 14), ...rules.map(firing)],
      },
    ],
  }
}

/** Runs promtool with an input. JSON is YAML. */
function runPromtool(t: Test, command: string, input: object): void {
  const file = join(testFolder(t), 'rules.yaml')
  writeFileSync(file, JSON.stringify(input))
  const { status, stdout, stderr } = spawnSync('promtool', [command, 'rules', file], { encoding: 'utf8' })
  t.equal(status, 0, `${stdout}${stderr}`)
}

t.test('each alert fires when it should, with the values in its text', async (t) => {
  t.same(
    rules.map(({ alert }) => alert),
    Object.keys(ALERTS),
  )
  runPromtool(t, 'test', createRuleTests())
})

t.test('every metric of the rules and of the dashboard exists', async (t) => {
  const page = readFileSync(getPath('../../docs/operators/monitoring.md'), 'utf8')
  // These exist only with replicas; the page has them, and packages/http/test/operations/metrics.extended.test.ts checks the page.
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

t.test('promtool can parse every expression of the rules and the dashboard', async (t) => {
  const checked = readExpressions().map((expression, i) => ({
    record: `panel_${i}`,
    expr: expression.replaceAll('$__rate_interval', '5m'),
  }))
  runPromtool(t, 'check', { groups: [{ name: 'dashboard', rules: checked }] })
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
  const readme = readFileSync(getPath('../README.md'), 'utf8')
  const [, instances = ''] = /systemctl enable --now (resource-api@.*)/.exec(readme) ?? []
  const ports = instances.split(' ').map((name) => name.replace('resource-api@', ''))
  t.ok(ports.length > 1)
  for (const sample of ['nginx/resource-api.conf', 'caddy/Caddyfile', 'haproxy/haproxy.cfg']) {
    const text = readFileSync(getPath(`../${sample}`), 'utf8')
    t.same(
      [...text.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => port),
      ports,
      sample,
    )
  }
  t.end()
})
