/** The commands of the Dockerfile build an image whose command serves requests and whose bill of materials is exact. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { buildImage, readBaseEnvironment } from './build-image.ts'

const image = await buildImage(t, fileURLToPath(new URL('../..', import.meta.url)))
const app = join(image.root, image.workdir)
const read = (name: string) => JSON.parse(readFileSync(join(app, name), 'utf8'))

t.test('the bill of materials names exactly the installed packages', async (t) => {
  const { metadata, components } = read('sbom.cdx.json')
  t.equal(metadata.component['bom-ref'], `resource-api@${read('package.json').version}`)
  // What npm installed.
  const paths = Object.keys(read('node_modules/.package-lock.json').packages).filter((path) =>
    path.startsWith('node_modules/'),
  )
  const installed = paths.map(
    (path) => `${path.split('node_modules/').at(-1)}@${read(`${path}/package.json`).version}`,
  )
  t.ok(installed.length > 100)
  const named = components.map(({ purl }: { purl: string }) =>
    decodeURIComponent(purl.slice('pkg:npm/'.length)),
  )
  t.same(named.sort(), [...new Set(installed)].sort())
})

t.test('the image contains what it runs and nothing else', async (t) => {
  t.same(readdirSync(app).sort(), [
    'LICENSE',
    'dist',
    'drizzle',
    'node_modules',
    'package.json',
    'packages',
    'sbom.cdx.json',
    'templates',
  ])
  t.same(readdirSync(image.root).sort(), ['app', 'data'])
  const packages = ['accounts', 'client', 'database', 'docs', 'events', 'http', 'resources']
  t.same(readdirSync(join(app, 'packages')).sort(), packages)
})

t.test('the command of the image serves requests, and its health check finds it', async (t) => {
  const port = await findFreePort()
  const [program = '', ...args] = image.command
  const env = {
    ...readBaseEnvironment(),
    ...image.env,
    DATA_DIR: join(image.root, image.env.DATA_DIR ?? ''),
    APP_SECRET: 'a-secret-of-the-test-of-the-image-0123456789',
    INSECURE_HTTP: 'true',
    // Loads the packages that send mails.
    MAIL_URL: 'smtp://127.0.0.1:1',
    MAIL_FROM: 'accounts@example.com',
    HOST: '127.0.0.1',
    PORT: String(port),
  }
  const server = spawn(program, args, { cwd: app, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (text) => (output += text))
  const ended = once(server, 'close')
  t.teardown(async () => {
    server.kill('SIGKILL')
    await ended
  })
  await waitUntil(async () => {
    if (server.exitCode !== null) throw new Error(output)
    return fetch(`http://127.0.0.1:${port}/livez`).then(
      ({ status }) => status === 200,
      () => false,
    )
  })
  const [check = '', ...checkArgs] = image.healthcheck
  await t.resolves(promisify(execFile)(check, checkArgs, { cwd: app, env }))
})

t.test('the commands run in the image', async (t) => {
  const [program = ''] = image.command
  const { stdout } = await promisify(execFile)(program, ['dist/src/cli.js', '--help'], { cwd: app })
  t.match(stdout, /^ {2}events tail /m)
})
