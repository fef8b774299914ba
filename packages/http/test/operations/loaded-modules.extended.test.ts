/** A start loads only the modules that its settings need. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startFlags } from '../../../../bench/start-flags.ts'
import { SERVER, testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, SHORT_RUN, startServer } from '../../../testing/helpers/process.ts'

const settings = {
  ...(await createServerSettings(t)),
  ...{ NODE_ENV: 'production', INSECURE_HTTP: 'true', HOST: '127.0.0.1', SHUTDOWN_DELAY: '0' },
  ADMIN_API_KEY: 'test-admin-key-test-admin-key-test-admin-key',
}

const PACKAGE = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//

/** Modules that only commands need, or several processes. */
const OF_OTHERS =
  /\/packages\/(?:cli\/|\w+\/(?:src|dist)\/(?:(?:backup|commands)\/|.*\/worker-(?:processes|messages|metrics)\.))/

/** The packages of which a server has loaded something by its end, as V8 lists them for coverage. */
async function loaded(t: Test, more: NodeJS.ProcessEnv = {}, use = async (_url: string) => {}) {
  const folder = testFolder(t)
  const { child, ended, url } = await startServer(
    t,
    { ...settings, ...more, NODE_V8_COVERAGE: folder },
    'server.ts',
    SHORT_RUN,
  )
  await use(url)
  child.kill('SIGTERM')
  t.equal((await ended).code, 0)
  const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'))
  const scripts: { url: string }[] = files.flatMap((text) => JSON.parse(text).result)
  t.ok(
    scripts.some(({ url: script }) => script.includes('/packages/http/')),
    'modules of the packages are seen',
  )
  t.same(
    scripts.filter(({ url: script }) => OF_OTHERS.test(script)),
    [],
    'no module of commands, backups and worker processes',
  )
  return new Set(scripts.flatMap((script) => PACKAGE.exec(script.url)?.[1] ?? []))
}

/** Whether anything of a package, or of all those of a scope, is among them. */
const has = (packages: ReadonlySet<string>, name: string) =>
  packages.has(name) || [...packages].some((each) => each.startsWith(`${name}/`))

const [engine, otherEngine] = SERVER ? ['postgres', '@electric-sql'] : ['@electric-sql', 'postgres']
const ASKED_FOR = ['@opentelemetry', 'ioredis', 'prom-client', '@scalar', 'nodemailer']

t.test('a server loads nothing that its settings do not ask for', async (t) => {
  const packages = await loaded(t, {}, async (url) => {
    t.equal((await fetch(`${url}/readyz`)).status, 200)
  })
  t.ok(has(packages, 'fastify'), 'what is loaded is seen')
  t.ok(has(packages, engine), 'the engine that it runs on')
  for (const name of [otherEngine, ...ASKED_FOR]) t.notOk(has(packages, name), name)
})

t.test('a server loads the modules of its settings', async (t) => {
  const asking = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    REDIS_URL: 'redis://127.0.0.1:9',
    METRICS_TOKEN: 'test-metrics-token-test-metrics-token',
    MAIL_URL: 'smtp://127.0.0.1:9',
    MAIL_FROM: 'accounts@example.com',
  }
  const packages = await loaded(t, asking, async (url) => {
    t.match(await (await fetch(`${url}/docs/`)).text(), '<!doctype html>')
    t.equal((await fetch(`${url}/docs/js/scalar.js`)).status, 200)
    for (const version of [1, 2]) {
      const reply = await fetch(`${url}/openapi/v${version}.json`)
      t.match(await reply.json(), { openapi: '3.1.0', paths: { [`/api/v${version}/users`]: Object } })
    }
  })
  for (const name of ASKED_FOR) t.ok(has(packages, name), name)
})

t.test('the image and the systemd unit start the server with the flags of `npm start`', async (t) => {
  const read = (name: string) => readFileSync(new URL(`../../../../${name}`, import.meta.url), 'utf8')
  const command = ['node', ...startFlags, 'dist/src/server.js']
  t.same(JSON.parse(/^CMD (\["node".*\])$/m.exec(read('Dockerfile'))?.[1] ?? '[]'), command)
  const unit = /^ExecStart=\/usr\/bin\/(.*)$/m.exec(read('deploy/systemd/resource-api@.service'))?.[1]
  t.equal(unit, command.join(' '))
})
