/** The commands of the Dockerfile build an image whose command serves requests and whose bill of materials is exact. */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { packAll } from '../create.ts'
import { buildImage, readBaseEnvironment } from './build-image.ts'

// The packages of both images are installed.
t.setTimeout(1_800_000)

/** A package that the image can do without. */
const OMITTED = '@opentelemetry/sdk-trace'
const image = await buildImage(t, fileURLToPath(new URL('../..', import.meta.url)), { OMIT: OMITTED })
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
  t.same(
    installed.filter((name) => name.startsWith(OMITTED)),
    [],
    'without what was left out',
  )
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
  const packages = [
    'accounts',
    'api',
    'cli',
    'client',
    'database',
    'docs',
    'events',
    'http',
    'resources',
    'work',
  ]
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

t.test('the image of a new application has its templates, and no optional package', async (t) => {
  const folder = testFolder(t)
  const application = join(folder, 'my-api')
  packAll(folder)
  const create = fileURLToPath(new URL('../../packages/create/dist/create.js', import.meta.url))
  execFileSync(process.execPath, [create, application, '--example', 'shop', '--packages', folder])
  writeFileSync(join(application, 'templates/receipt.txt'), 'Subject: Receipt {{number}}\n\nThank you.\n')
  writeFileSync(join(application, 'templates/receipt.html'), '<p>{{number}}</p>')
  // As the first `npm install` does.
  execFileSync('npm', ['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: application,
    env: readBaseEnvironment(),
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const own = await buildImage(t, application)
  const cwd = join(own.root, own.workdir)
  const names = Object.keys(
    JSON.parse(readFileSync(join(cwd, 'node_modules/.package-lock.json'), 'utf8')).packages,
  )
  t.ok(names.length > 100 && names.length < 180, `${names.length} packages`)
  t.same(
    names.filter((name) => /pglite|opentelemetry\/core|modelcontextprotocol|testing$/.test(name)),
    [],
  )
  t.same(own.command, image.command, 'its server has the same flags')
  const env = {
    ...readBaseEnvironment(),
    ...own.env,
    DATA_DIR: join(own.root, own.env.DATA_DIR ?? ''),
    APP_SECRET: 'a-secret-of-the-test-of-the-image-0123456789',
    INSECURE_HTTP: 'true',
  }
  const [program = '', ...args] = own.command
  const run = (...words: string[]) => promisify(execFile)(program, words, { cwd, env })
  const preview = join(folder, 'preview.txt')
  await run('dist/src/cli.js', 'mail', 'preview', 'receipt', preview)
  t.equal(readFileSync(preview, 'utf8'), 'Subject: Receipt [number]\n\nThank you.\n')
  await t.rejects(run(...args), {
    code: 1,
    stderr:
      /^The service cannot start: The embedded database, .* npm install --save-prod @electric-sql\/pglite@\S+\n$/,
  })
})
