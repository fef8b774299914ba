/** Assertions that hold whatever the tested code does are found, and no test has one. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findVacuousAssertions } from './vacuous-assertions.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Test files, and the modules that assert for them. */
const files = ['bench', 'deploy', 'packages', 'scripts', 'test']
  .flatMap((folder) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  .filter((path) => /^test\/|\/(?:test|helpers|soak)\/|\/testing\/src\/check/.test(path))
  .filter((path) => path.endsWith('.ts') && !path.includes('/node_modules/'))

t.test('no test has an assertion that holds whatever the code does', async (t) => {
  t.ok(files.length > 380, 'the files are found')
  t.same(
    files.flatMap((path) =>
      findVacuousAssertions(readFileSync(root + path, 'utf8')).map((fault) => `${path}:${fault}`),
    ),
    [],
  )
})

const VACUOUS: Record<string, readonly string[]> = {
  'no object has a text': [
    `t.notHas(headers, 'content-length')`,
    't.notHasStrict(headers, `content-length`)',
    `t.test('a', async (t) => { if (b) t.notHas(c, 'd') })`,
  ],
  '[] and {} match whatever there is': [
    `t.match(list, [])`,
    `t.match(reply, { body: { data: [] } }, 'empty')`,
    `t.has(updates, [{ previous: {} }])`,
    `await t.resolveMatch(read(), { data: [] })`,
    `const fields = []\nconst expected = { code: 1, fields }\nt.match(error, expected)`,
    `t.match(reply, { ...{ rows: 1, skipped: [] }, note: /a/ })`,
  ],
  'the value is compared with itself': [`t.same(body, body)`, `t.equal(a.b.c, a.b.c)`, `t.match(x, x)`],
  'the value is true whatever it has': [
    `t.ok(list.filter((each) => each.isOld))`,
    `t.ok([first, second])`,
    `t.ok(() => list.length > 0)`,
    't.ok(`a count`)',
    `const isOpen = async () => false\nt.ok(isOpen())`,
    `async function isOpen() {}\nt.ok(isOpen(), 'open')`,
    `t.ok(read().then((text) => text === 'a'))`,
  ],
  'an async function does not throw': [`t.doesNotThrow(async () => { await read() })`],
  'the promise of rejects is not awaited': [`t.rejects(read(), Error)`],
  'the promise of resolves is not awaited': [`t.test('a', async (t) => { t.resolves(read()) })`],
  'the promise of resolveMatch is not awaited': [`t.resolveMatch(read(), 'a')`],
  'the callback takes no t': [
    `t.test('a', async () => { t.ok(b) })`,
    `test('a', { skip }, () => { check() })`,
    `t.test('a', async (t) => { await t.test('b', async () => { t.ok(c) }) })`,
  ],
  'the test asserts nothing': [
    `t.test('a', async (t) => { await read() })`,
    `test('a', async (t) => { t.teardown(() => close()); t.comment('b') })`,
  ],
  'nothing is asserted if the promise resolves': [`await read().catch((error) => t.match(error, /a/))`],
  'nothing is asserted if the block does not throw': [
    `try { await read() } catch (error) { t.match(error, /a/) }`,
  ],
  'the output of a program that does not start is empty': [
    `const { stdout } = await run('tsc', []).catch((error) => error)\nt.equal(stdout, '')`,
    `const { stdout } = spawnSync('tsc')\nt.equal(stdout, '')`,
    `t.equal(spawnSync('tsc').stdout, '')`,
    `t.equal((await run('tsc').catch((error) => error)).stdout, '')`,
  ],
}

for (const [fault, sources] of Object.entries(VACUOUS))
  t.test(`found: ${fault}`, async (t) => {
    for (const source of sources)
      t.match(findVacuousAssertions(`import t, { test } from 'tap'\n${source}`), [fault], source)
  })

t.test('what can fail is not found', async (t) => {
  for (const source of [
    `t.notOk('content-length' in headers)`,
    `t.notHas(body, { secret: String })`,
    `t.same(body, { data: [], meta: {} })`,
    `t.match(body, { data: [{ id: 1 }], meta: Object, tags: Array })`,
    `t.match('a/b', /[]/)`,
    `t.equal(hash(a), hash(a))`,
    `t.ok(list.filter((each) => each.isOld).length)`,
    `const isOpen = async () => false\nt.ok(await isOpen())`,
    `t.doesNotThrow(() => read())`,
    `await t.rejects(read(), Error)`,
    `const refused = t.rejects(read(), Error)`,
    `t.test('a', async (t) => { await check(t) })`,
    `t.test('a', async (t) => t.ok(b))`,
    `t.test('a', check)`,
    `try { await read(); t.fail() } catch (error) { t.match(error, /a/) }`,
    `const { stdout } = await run('tsc', [])\nt.equal(stdout, '')`,
    `const { status, stdout } = spawnSync('tsc')\nt.same([status, stdout], [0, ''])`,
  ])
    t.same(findVacuousAssertions(`import t, { test } from 'tap'\n${source}`), [], source)
})

t.test('a fault has its line in the source', async (t) => {
  const source = `interface A {\n  b: string\n}\n\nt.test('a', async (t) => {\n  t.notHas(b as A, 'c')\n})`
  t.same(findVacuousAssertions(source), ['6: no object has a text'])
})

/** Runs tests as `.taprc` does. */
function runTests(source: string) {
  const preload = '--import=./packages/testing/run/require-assertions.js'
  const args = [preload, '--input-type=module', '--eval', `import t from 'tap'\n${source}`]
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  })
  return {
    status,
    failed: [...stdout.matchAll(/^ *not ok \d+ - (.* has no assertion)$/gm)].map(([, name]) => name),
  }
}

t.test('a test that ends without an assertion fails', async (t) => {
  const found = runTests(`
    const list = []
    t.test('full', async (t) => { for (const each of [1]) t.ok(each) })
    t.test('outer', async (t) => {
      t.test('inner', async (t) => { for (const each of list) t.ok(each) })
      t.ok(true)
    })
    t.test('skipped', { skip: 'a reason' }, async (t) => undefined)
    t.test('empty', async (t) => { for (const each of list) t.ok(each) })`)
  t.same(found, { status: 1, failed: ['"inner" has no assertion', '"empty" has no assertion'] })
  t.match(readFileSync(`${root}.taprc`, 'utf8'), 'run/require-assertions.js')
  const full = `t.test('full', async (t) => { t.test('inner', async (t) => { t.ok(true) }) })`
  t.same(runTests(full), { status: 0, failed: [] })
})
