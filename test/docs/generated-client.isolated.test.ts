/** A TypeScript client generated from each OpenAPI document compiles and works. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)
const bin = (name: string) => join(root, 'node_modules/.bin', name)

t.test('a client generated from each document compiles and calls the server', async (t) => {
  const { anybody, base } = await testApp(t)
  // Below the project, where the client finds its runtime.
  const cache = join(root, 'node_modules/.cache/resource-api')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'client-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))

  await Promise.all(
    ['v1', 'v2'].map(async (version) => {
      const own = join(folder, version)
      mkdirSync(own)
      const document = join(own, 'openapi.json')
      writeFileSync(document, (await anybody.get(`/openapi/${version}.json`)).text)
      await run(bin('oazapfts'), ['--mergeReadWriteOnly', document, join(own, 'api.ts')])
      cpSync(join(root, 'test/client', `${version}.ts`), join(own, 'index.ts'))
    }),
  )
  // As strict as the project itself, but for what the generator does not promise of its own functions.
  const settings = { extends: join(root, 'tsconfig.json'), include: ['*/index.ts'], exclude: [] }
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      ...settings,
      compilerOptions: { exactOptionalPropertyTypes: false, lib: ['es2023', 'dom'] },
    }),
  )

  const { code = 0, stdout, stderr } = await run(bin('tsc'), ['-p', folder]).catch((failed) => failed)
  t.strictSame({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' })

  const hold = async (version: string) =>
    (await import(pathToFileURL(join(folder, version, 'index.ts')).href)).converse(base, ADMIN_KEY)

  t.match(await hold('v1'), {
    price: 1999,
    violations: ['price_amount OUT_OF_RANGE', 'status INVALID_VALUE'],
    name: 'Tea',
    kept: 304,
    listed: ['TEA-V1'],
    more: false,
    missing: ['INSUFFICIENT_STOCK'],
    stock: 25,
    stale: 412,
    total: 3998,
    owner: 'admin@example.com',
    removed: 409,
  })
  t.match(await hold('v2'), {
    price: 1999,
    violations: ['data.attributes.price_amount OUT_OF_RANGE'],
    mistaken: 409,
    name: 'Tea',
    kept: 304,
    total: 2,
    stock: 25,
    stale: 412,
    replaced: 25,
    owner: 'admin@example.com',
    products: ['TEA-V2'],
    removed: 409,
  })
})
