/** `resource-api upgrade` runs the codemods of newer packages, each once and in the order of their versions. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { upgrade } from '../src/upgrade.ts'

/** Writes an application of the version 0.1.0 with packages of 0.10.0. */
function createApplication(t: { teardown(remove: () => void): void }) {
  const root = mkdtempSync(join(tmpdir(), 'resource-api-test-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const codemod = (from: string, to: string) =>
    `export default { description: '${to}', change: (path, text) => path.startsWith('plugins/') ? text.replaceAll('${from}', '${to}') : text }\n`
  const packages = 'node_modules/@resource-api'
  write(
    'package.json',
    JSON.stringify({
      name: 'api',
      dependencies: { '@resource-api/http': '^0.1.0', fastify: '5.0.0', other: '1.0.0' },
      resourceApi: { version: '0.1.0' },
    }),
  )
  write(`${packages}/http/package.json`, '{ "type": "module", "version": "0.10.0" }')
  const dependencies = { fastify: '5.0.1', '@resource-api/http': '0.10.0' }
  write(
    `${packages}/resources/package.json`,
    JSON.stringify({ type: 'module', version: '0.10.0', dependencies }),
  )
  write(`${packages}/http/codemods/0.1.0.js`, codemod('one', 'never'))
  // The second one needs what the first one has written.
  write(`${packages}/http/codemods/0.10.0.js`, codemod('two', 'three'))
  write(`${packages}/resources/codemods/0.2.0.js`, codemod('one', 'two'))
  write('plugins/a.ts', 'one')
  write('schemas/a.ts', 'one')
  return { root, write, read: (path: string) => readFileSync(join(root, path), 'utf8') }
}

t.test('the codemods after the version of the application run, and it has the new one', async (t) => {
  const { root, write, read } = createApplication(t)
  t.capture(console, 'log')
  await upgrade([], root)
  t.equal(read('plugins/a.ts'), 'three')
  t.equal(read('schemas/a.ts'), 'one')
  t.same(JSON.parse(read('package.json')), {
    name: 'api',
    // What both import has the version of the packages.
    dependencies: { '@resource-api/http': '^0.1.0', fastify: '5.0.1', other: '1.0.0' },
    resourceApi: { version: '0.10.0' },
  })
  write('plugins/a.ts', 'one')
  await upgrade([], root)
  t.equal(read('plugins/a.ts'), 'one', 'each runs once')
})

t.test('all packages of the scope publish their codemods', async (t) => {
  const packages = new URL('../../', import.meta.url)
  const manifests = readdirSync(packages)
    .map((name) => new URL(`${name}/package.json`, packages))
    .filter((file) => existsSync(file))
    .map((file): { name: string; files: string[] } => JSON.parse(readFileSync(file, 'utf8')))
    .filter(({ name }) => name.startsWith('@resource-api/'))
  t.equal(manifests.length, 8, 'the packages are found')
  for (const { name, files } of manifests) t.ok(files.includes('codemods'), name)
})

t.test('a folder without an application, and arguments, are refused', async (t) => {
  const { root } = createApplication(t)
  rmSync(join(root, 'node_modules'), { recursive: true })
  await t.rejects(upgrade([], root), {
    name: 'UsageError',
    message: /has no package\.json with installed packages/,
  })
  await t.rejects(upgrade(['--force'], root), { name: 'UsageError' })
})
