/** `create FOLDER --update --packages DIR` replaces the tarballs of an application, and nothing else of it. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const program = fileURLToPath(new URL('../src/create.ts', import.meta.url))

/** Writes files by their paths, and returns the folder. */
function writeFiles(t: Test, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-test-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

function update(folder: string, ...args: string[]) {
  const command = ['--import=tsx', program, folder, '--update', ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' })
  return { status, stdout, stderr }
}

const PACKAGES = {
  'resource-api-http-0.2.0.tgz': 'http 0.2.0',
  'resource-api-client-0.2.0.tgz': 'client 0.2.0',
  // As a clone has it whose version was not raised.
  'create-resource-api-0.1.0.tgz': 'create, later',
}

const MANIFEST = {
  name: 'my-api',
  dependencies: { '@resource-api/http': 'file:vendor/resource-api-http-0.1.0.tgz', fastify: '5.0.0' },
  devDependencies: {
    'create-resource-api': 'file:vendor/create-resource-api-0.1.0.tgz',
    own: 'file:vendor/own-1.0.0.tgz',
  },
  overrides: {
    '@resource-api/client': 'file:vendor/resource-api-client-0.1.0.tgz',
    '@resource-api/gone': 'file:vendor/resource-api-gone-0.1.0.tgz',
  },
}

const lock = (names: readonly string[]) =>
  JSON.stringify({
    lockfileVersion: 3,
    packages: Object.fromEntries(
      ['', ...names.map((name) => `node_modules/${name}`)].map((key) => [key, {}]),
    ),
  })

t.test('the tarballs and their names are those of the newer packages', async (t) => {
  const packages = writeFiles(t, PACKAGES)
  const folder = writeFiles(t, {
    'package.json': JSON.stringify(MANIFEST),
    'package-lock.json': lock(['@resource-api/http', 'create-resource-api', 'fastify', 'own']),
    'src/own.ts': 'mine',
    'vendor/own-1.0.0.tgz': 'own',
    ...Object.fromEntries(
      ['resource-api-http', 'resource-api-client', 'resource-api-gone', 'create-resource-api'].map((name) => [
        `vendor/${name}-0.1.0.tgz`,
        'before',
      ]),
    ),
  })
  const { status, stdout, stderr } = update(folder, '--packages', packages)
  t.equal(status, 0, stderr)
  t.match(stdout, /npm install\n {2}npx resource-api upgrade\n/)
  const read = (path: string) => readFileSync(join(folder, path), 'utf8')
  t.same(readdirSync(join(folder, 'vendor')).sort(), ['own-1.0.0.tgz', ...Object.keys(PACKAGES)].sort())
  t.equal(read('vendor/create-resource-api-0.1.0.tgz'), 'create, later')
  t.equal(read('src/own.ts'), 'mine')
  t.strictSame(JSON.parse(read('package.json')), {
    ...MANIFEST,
    dependencies: { '@resource-api/http': 'file:vendor/resource-api-http-0.2.0.tgz', fastify: '5.0.0' },
    overrides: { '@resource-api/client': 'file:vendor/resource-api-client-0.2.0.tgz' },
  })
  t.equal(read('package-lock.json'), `${JSON.stringify(JSON.parse(lock(['fastify', 'own'])), null, 2)}\n`)
})

t.test('an application without tarballs is refused, and stays as it is', async (t) => {
  const packages = writeFiles(t, PACKAGES)
  const text = JSON.stringify({ dependencies: { '@resource-api/http': '^0.1.0' } })
  const folder = writeFiles(t, { 'package.json': text })
  t.match(update(folder, '--packages', packages), { status: 2, stderr: /names tarballs in vendor/ })
  t.match(update(join(folder, 'none'), '--packages', packages), { status: 2, stderr: /no package\.json/ })
  t.match(update(folder), { status: 2, stderr: '--update needs --packages' })
  t.equal(readFileSync(join(folder, 'package.json'), 'utf8'), text)
  t.same(readdirSync(folder), ['package.json'])
})
