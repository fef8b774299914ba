/** The Helm chart renders valid Kubernetes objects, and says which values are missing. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { readConfig } from '../../packages/http/src/config/read-config.ts'
import {
  chart,
  createChartRenderer,
  hasHelm,
  mergeValues,
  type Rendered,
  readValues,
  type Values,
  writeText,
} from './render-chart.ts'

const render = createChartRenderer(t)

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

function parseObjects(t: Test, { files, error }: Rendered): KubernetesObject[] {
  t.equal(error, undefined)
  return Object.values(files).flatMap((text) =>
    parseAllDocuments(text).flatMap((document) => {
      t.same(document.errors, [], 'valid YAML')
      const object: KubernetesObject | null = document.toJS()
      return object === null ? [] : [object]
    }),
  )
}

/** Objects of operators that are not part of Kubernetes. */
const FOREIGN = new Set(['monitoring.coreos.com/v1'])

/** Type-checks objects against the types of kubernetes-models, which finds unknown fields too. Returns the errors as `stdout`. */
function typeCheck(objects: readonly KubernetesObject[]) {
  const folder = fileURLToPath(new URL('.generated', import.meta.url))
  mkdirSync(folder, { recursive: true })
  const lines = objects.map((object, i) => {
    const type = `import type { I${object.kind} as Type${i} } from 'kubernetes-models/${object.apiVersion}'`
    return `${type}\nexport const object${i}: Type${i} = ${JSON.stringify(object, null, 2)}\n`
  })
  const file = writeText(folder, 'objects.ts', lines.join('\n'))
  const compiler = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url))
  const options = ['--noEmit', '--strict', ...['--module', 'nodenext'], '--skipLibCheck', '--ignoreConfig']
  const args = [...options, '--types', '', file]
  const { status, stdout } = spawnSync(compiler, args, { cwd: folder, encoding: 'utf8' })
  rmSync(folder, { recursive: true })
  return { status, stdout }
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

t.test('the objects are valid, with the defaults and with every option', async (t) => {
  for (const values of [required, everything]) {
    const objects = parseObjects(t, render(values))
    t.equal(new Set(objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`)).size, objects.length)
    const known = objects.filter(({ apiVersion }) => !FOREIGN.has(apiVersion))
    await validate(t, known)
    t.same(typeCheck(known), { status: 0, stdout: '' })
  }
  const kinds = parseObjects(t, render(everything)).map(({ kind }) => kind)
  t.same(kinds.sort(), [
    ...['ConfigMap', 'Deployment', 'HorizontalPodAutoscaler', 'Ingress', 'Job'],
    ...['PodDisruptionBudget', 'PodMonitor', 'Service', 'ServiceAccount'],
  ])
})

t.test('the check of the objects finds unknown fields', async (t) => {
  const [deployment] = parseObjects(t, render(required)).filter(({ kind }) => kind === 'Deployment')
  if (!deployment) throw new Error('There is no deployment')
  const broken = { ...deployment, spec: { ...deployment.spec, replica: 2 } }
  t.match(typeCheck([broken]).stdout, /"replica"' does not exist in type/)
})

t.test('the settings of the pods are settings of the service', (t) => {
  const [settings] = parseObjects(t, render(everything)).filter(({ kind }) => kind === 'ConfigMap')
  t.match(settings?.data, {
    BODY_LIMIT: '2097152',
    COMPRESS: 'true',
    METRICS_PORT: '9464',
    METRICS_HOST: '0.0.0.0',
  })
  const secrets = { DATABASE_URL: 'postgres://a@b/c', APP_SECRET: 'x'.repeat(32) }
  t.match(readConfig({ NODE_ENV: 'production', ...secrets, ...settings?.data }), {
    BODY_LIMIT: 2_097_152,
    COMPRESS: true,
    METRICS_PORT: 9464,
    SHUTDOWN_DELAY: 20_000,
    EVENTS_RETENTION_DAYS: 30,
  })
  t.end()
})

t.test('a job applies the migrations before the pods start, unless that is disabled', (t) => {
  const find = (values: Values, kind: string) =>
    parseObjects(t, render(values)).find((object) => object.kind === kind)
  t.match(find(required, 'Job'), {
    metadata: { annotations: { 'helm.sh/hook': 'pre-install,pre-upgrade' } },
    spec: { template: { spec: { containers: [{ command: ['node', 'dist/src/cli.js', 'migrate'] }] } } },
  })
  t.match(find(required, 'ConfigMap')?.data, { MIGRATE: 'false' })
  const disabled = { ...required, migrations: { enabled: false } }
  t.equal(find(disabled, 'Job'), undefined)
  t.notOk('MIGRATE' in (find(disabled, 'ConfigMap')?.data ?? {}))
  t.match(find({ ...required, settings: { TRUST_PROXY: '1', MIGRATE: true } }, 'ConfigMap')?.data, {
    MIGRATE: 'true',
  })
  t.end()
})

t.test('the grace period of a pod is longer than its shutdown', (t) => {
  const [deployment] = parseObjects(t, render(everything)).filter(({ kind }) => kind === 'Deployment')
  t.match(deployment?.spec, { template: { spec: { terminationGracePeriodSeconds: 50 } } })
  t.end()
})

t.test('a secret of the chart has the values', (t) => {
  const values = { DATABASE_URL: 'postgres://a@b/c', APP_SECRET: '"quotes": {{ braces }}' }
  const objects = parseObjects(t, render({ ...required, secret: { values }, migrations: { enabled: false } }))
  t.match(
    objects.find(({ kind }) => kind === 'Secret'),
    { stringData: values },
  )
  t.end()
})

t.test('a missing value is an error that names it', (t) => {
  const cases: [string, Values][] = [
    ['image.repository is required', { ...required, image: {} }],
    ['secret.existingSecret is required', { ...required, secret: {} }],
    [
      'secret.values has no APP_SECRET',
      { ...required, secret: { values: { DATABASE_URL: 'postgres://a@b/c' } } },
    ],
    ['settings.TRUST_PROXY is required', { ...required, settings: {} }],
    [
      'migrations.enabled requires secret.existingSecret',
      {
        ...required,
        secret: { values: { DATABASE_URL: 'postgres://a@b/c', APP_SECRET: 'x'.repeat(32) } },
      },
    ],
  ]
  for (const [message, values] of cases) t.match(render(values).error, message)
  t.end()
})

t.test('the schema of the values describes all values and rejects others', (t) => {
  const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'))
  const check = new Ajv({ allErrors: true }).compile(schema)
  const values = readValues()
  t.ok(check(values), JSON.stringify(check.errors))
  t.ok(check(mergeValues(values, everything)), JSON.stringify(check.errors))
  t.notOk(check(mergeValues(values, { replica: 3 })))
  t.notOk(check(mergeValues(values, { image: { digest: 'latest' } })))
  t.same(
    Object.keys(values).filter((name) => !(name in schema.properties)),
    [],
  )
  t.end()
})

if (hasHelm) {
  t.test('helm lint finds nothing', (t) => {
    const { status, stdout } = spawnSync('helm', ['lint', '--strict', chart, '--values', '-'], {
      input: JSON.stringify(required),
      encoding: 'utf8',
    })
    t.equal(status, 0, stdout)
    t.end()
  })
}
