/** The Helm chart renders valid Kubernetes objects, and says which values are missing. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import t, { type Test } from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { readConfig } from '../../src/config.ts'

const chart = fileURLToPath(new URL('../../deploy/helm/resource-api', import.meta.url))
const skip = spawnSync('helm', ['version']).status === 0 ? false : 'Helm is not installed'

/** Values of the chart, or a part of them. */
interface Values {
  [name: string]: Values | string | number | boolean | unknown[]
}

/** Runs a command of Helm on the chart with changed values. */
const runHelm = (command: readonly string[], values: Values) =>
  spawnSync('helm', [...command, chart, '--values', '-'], { input: JSON.stringify(values), encoding: 'utf8' })

const render = (values: Values) => runHelm(['template', 'api'], values)

const required: Values = {
  image: { repository: 'registry.example.com/resource-api' },
  secret: { existingSecret: 'credentials' },
  settings: { TRUST_PROXY: '10.42.0.0/16' },
}
/** Everything that is off by default. */
const everything: Values = {
  ...required,
  image: {
    repository: 'registry.example.com/resource-api',
    digest: `sha256:${'0'.repeat(64)}`,
    pullSecrets: [{ name: 'registry' }],
  },
  settings: {
    TRUST_PROXY: '10.42.0.0/16',
    BODY_LIMIT: 2097152,
    COMPRESS: true,
    SHUTDOWN_DELAY: '20000',
    EVENTS_RETENTION_DAYS: 30,
  },
  migrations: { enabled: true, existingSecret: 'owner' },
  ingress: { enabled: true, className: 'nginx', tlsSecret: 'certificate', annotations: { a: 'b' } },
  autoscaling: { enabled: true },
  metrics: { podMonitor: { enabled: true, labels: { release: 'prometheus' } } },
  podLabels: { team: 'shop' },
  podAnnotations: { a: 'b' },
  nodeSelector: { 'kubernetes.io/arch': 'amd64' },
  tolerations: [{ key: 'a', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  service: { annotations: { a: 'b' } },
  serviceAccount: { name: 'someone', annotations: { a: 'b' } },
}

interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: { name: string }
  spec?: Record<string, unknown>
  data?: Record<string, string>
}

/** Renders the chart, and returns its objects. */
function renderObjects(t: Test, values: Values): KubernetesObject[] {
  const { status, stdout, stderr } = render(values)
  t.equal(status, 0, stderr)
  return parseAllDocuments(stdout).flatMap((document) => {
    t.same(document.errors, [], 'valid YAML')
    const object: KubernetesObject | null = document.toJS()
    return object === null ? [] : [object]
  })
}

const findObject = (t: Test, values: Values, kind: string) =>
  renderObjects(t, values).find((object) => object.kind === kind)

/** Objects of operators that are not part of Kubernetes. */
const FOREIGN = new Set(['monitoring.coreos.com/v1'])

/** Type-checks objects against the types of kubernetes-models, which finds unknown fields too. Returns the errors. */
function typeCheck(objects: readonly KubernetesObject[]): string {
  const folder = fileURLToPath(new URL('.generated', import.meta.url))
  mkdirSync(folder, { recursive: true })
  const lines = objects.map((object, i) => {
    const type = `import type { I${object.kind} as Type${i} } from 'kubernetes-models/${object.apiVersion}'`
    return `${type}\nexport const object${i}: Type${i} = ${JSON.stringify(object, null, 2)}\n`
  })
  const file = join(folder, 'objects.ts')
  writeFileSync(file, lines.join('\n'))
  const compiler = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url))
  const options = ['--noEmit', '--strict', ...['--module', 'nodenext'], '--skipLibCheck', '--ignoreConfig']
  const { stdout } = spawnSync(compiler, [...options, '--types', '', file], { cwd: folder, encoding: 'utf8' })
  rmSync(folder, { recursive: true })
  return stdout
}

async function validate(t: Test, objects: readonly KubernetesObject[]): Promise<void> {
  for (const object of objects) {
    const models: Record<string, new (object: unknown) => { validate(): void }> = await import(
      `kubernetes-models/${object.apiVersion}`
    )
    const Model = models[object.kind]
    if (!Model) throw new Error(`Kubernetes has no ${object.apiVersion} ${object.kind}`)
    t.doesNotThrow(() => new Model(object).validate(), `${object.kind} ${object.metadata.name}`)
  }
}

t.test('the objects are valid, with the defaults and with every option', { skip }, async (t) => {
  for (const values of [required, everything]) {
    const objects = renderObjects(t, values)
    t.equal(new Set(objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`)).size, objects.length)
    const known = objects.filter(({ apiVersion }) => !FOREIGN.has(apiVersion))
    await validate(t, known)
    t.equal(typeCheck(known), '')
  }
  const kinds = renderObjects(t, everything).map(({ kind }) => kind)
  t.same(kinds.sort(), [
    ...['ConfigMap', 'Deployment', 'HorizontalPodAutoscaler', 'Ingress', 'Job'],
    ...['PodDisruptionBudget', 'PodMonitor', 'Service', 'ServiceAccount'],
  ])
})

t.test('the settings of the pods are settings of the service', { skip }, async (t) => {
  const settings = findObject(t, everything, 'ConfigMap')?.data
  t.match(settings, {
    ...{ BODY_LIMIT: '2097152', COMPRESS: 'true', METRICS_PORT: '9464', METRICS_HOST: '0.0.0.0' },
  })
  const secrets = { DATABASE_URL: 'postgres://a@b/c', APP_SECRET: 'x'.repeat(32) }
  t.match(readConfig({ NODE_ENV: 'production', ...secrets, ...settings }), {
    ...{ BODY_LIMIT: 2_097_152, COMPRESS: true, METRICS_PORT: 9464, SHUTDOWN_DELAY: 20_000 },
    EVENTS_RETENTION_DAYS: 30,
  })
  // Longer than the shutdown.
  t.match(findObject(t, everything, 'Deployment')?.spec, {
    template: { spec: { terminationGracePeriodSeconds: 50 } },
  })
})

t.test('a job applies the migrations before the pods start, unless that is disabled', { skip }, async (t) => {
  t.match(findObject(t, required, 'Job'), {
    metadata: { annotations: { 'helm.sh/hook': 'pre-install,pre-upgrade' } },
    spec: { template: { spec: { containers: [{ command: ['node', 'dist/src/cli.js', 'migrate'] }] } } },
  })
  t.match(findObject(t, required, 'ConfigMap')?.data, { MIGRATE: 'false' })
  const disabled = { ...required, migrations: { enabled: false } }
  t.equal(findObject(t, disabled, 'Job'), undefined)
  t.notOk('MIGRATE' in (findObject(t, disabled, 'ConfigMap')?.data ?? {}))
  const settings = { TRUST_PROXY: '1', MIGRATE: true }
  t.match(findObject(t, { ...required, settings }, 'ConfigMap')?.data, { MIGRATE: 'true' })
})

t.test('a secret of the chart has the values, and a missing value is named', { skip }, async (t) => {
  const url = { DATABASE_URL: 'postgres://a@b/c' }
  const values = { ...url, APP_SECRET: '"quotes": {{ braces }}' }
  const own = { ...required, secret: { values }, migrations: { enabled: false } }
  t.match(findObject(t, own, 'Secret'), { stringData: values })
  for (const [message, change] of [
    ['image.repository is required', { image: {} }],
    ['secret.existingSecret is required', { secret: {} }],
    ['secret.values has no APP_SECRET', { secret: { values: url } }],
    ['settings.TRUST_PROXY is required', { settings: {} }],
    ['migrations.enabled requires secret.existingSecret', { secret: { values } }],
  ] as const)
    t.match(render({ ...required, ...change }).stderr, message)
  const { status, stdout } = runHelm(['lint', '--strict'], required)
  t.equal(status, 0, stdout)
})

t.test('the schema of the values describes all values and rejects others', async (t) => {
  const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'))
  const check = new Ajv({ allErrors: true }).compile(schema)
  const values: Values = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'))
  t.ok(check(values), JSON.stringify(check.errors))
  t.ok(check({ ...values, ...everything }), JSON.stringify(check.errors))
  t.notOk(check({ ...values, replica: 3 }))
  t.notOk(check({ ...values, image: { repository: 'a', digest: 'latest' } }))
  t.same(
    Object.keys(values).filter((name) => !(name in schema.properties)),
    [],
  )
})
