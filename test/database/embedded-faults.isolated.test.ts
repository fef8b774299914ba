/**
 * After a fault of the embedded database requests get 503 until a restart, which finds every acknowledged
 * write.
 */
import fs from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Reply, type TestApp, testApp } from '../helpers/app.ts'
import { type Owner, testEmbedded, testFolder } from '../helpers/database.ts'
import { collectIds } from '../helpers/replies.ts'
import { assertUnavailable, createProduct, listProducts } from './faulty-app.ts'

/** From now on, what Node writes into files fails as on such a disk; until `mend`. */
function failWrites(t: Owner, code: string): () => void {
  const { writeSync } = fs
  Object.assign(fs, {
    writeSync: () => {
      throw Object.assign(new Error(`${code}: write`), { code })
    },
  })
  const mend = () => {
    fs.writeSync = writeSync
  }
  t.teardown(mend)
  return mend
}

/** Timers that are set while the test runs keep the process no longer: an engine that trapped leaves its own behind. */
function looseTimers(t: Owner): void {
  const { setTimeout } = globalThis
  const loose = (...args: Parameters<typeof setTimeout>) => setTimeout(...args).unref()
  Object.assign(globalThis, { setTimeout: Object.assign(loose, setTimeout) })
  t.teardown(() => Object.assign(globalThis, { setTimeout }))
}

async function isStopped(t: Test, app: TestApp, logs: readonly string[], why: RegExp): Promise<void> {
  for (const ask of [listProducts, createProduct, listProducts, createProduct])
    assertUnavailable(t, await ask(app))
  assertUnavailable(t, await app.anybody.get('/readyz'))
  t.equal((await app.anybody.get('/livez')).status, 200)
  t.match(logs.join(''), /The embedded database has stopped; restart the server/, 'the log says what to do')
  t.match(logs.join(''), why, 'and why')
}

for (const [code, name, why] of [
  ['ENOSPC', 'a disk that is full', /PANIC: .*No space left on device/],
  ['EROFS', 'a disk that has become read-only', /PANIC: .*Read-only file system/],
] as const) {
  t.test(`${name} stops the embedded database, and acknowledged writes exist after a restart`, async (t) => {
    const dataDir = testFolder(t)
    const logs: string[] = []
    const parts = { logs: { write: (line: string) => logs.push(line) } }
    const app = await testApp(
      t,
      { LOG_LEVEL: 'error' },
      { ...parts, database: await testEmbedded(t, dataDir) },
    )
    const written: Reply[] = []
    for (let i = 0; i < 5; i += 1) written.push(await createProduct(app))
    const mend = failWrites(t, code)
    assertUnavailable(t, await createProduct(app))
    mend()
    await isStopped(t, app, logs, why)
    await app.app.close()

    const again = await testApp(t, {}, { database: await testEmbedded(t, dataDir) })
    const known = new Set(await collectIds(again.admin, '/products'))
    t.ok(written.every(({ status, body }) => status === 201 && known.has(body.data.id)))
    t.ok(known.size <= 6, 'and at most the uncertain one')
    t.equal((await createProduct(again)).status, 201)
  })
}

t.test(
  'a WebAssembly trap stops the embedded database, and waiting and later requests get 503',
  async (t) => {
    looseTimers(t)
    const database = await testEmbedded(t)
    const logs: string[] = []
    const parts = { database, logs: { write: (line: string) => logs.push(line) } }
    const app = await testApp(t, { LOG_LEVEL: 'error' }, parts)
    t.equal((await listProducts(app)).status, 200)
    // Deeper than its stack: PGlite does not see the end of that coming, as a server does.
    const trap = database.run(`select ${Array.from({ length: 5_000 }, () => '1').join('+')}`)
    const pending = [listProducts(app), createProduct(app), app.anybody.get('/readyz')]
    await t.rejects(trap, { name: 'DatabaseUnavailable' })
    await wait(0)
    for (const reply of await Promise.all(pending)) assertUnavailable(t, reply)
    await isStopped(t, app, logs, /RangeError|RuntimeError/)
  },
)
