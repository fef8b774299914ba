/** After a fault of the embedded database requests get 503 until a restart, which finds every acknowledged write. */
import fs from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Reply, type TestApp, testApp } from '../../testing/helpers/app.ts'
import { type Owner, testEmbedded, testFolder } from '../../testing/helpers/database.ts'
import { collectIds } from '../../testing/helpers/replies.ts'
import type { Database } from '../src/client/index.ts'
import { assertUnavailable, createProduct, listProducts } from './faulty-app.ts'

/** Makes all writes or syncs of Node.js into files fail as on such a disk, until the returned function is called. */
function failFiles(t: Owner, method: 'writeSync' | 'fsyncSync', code: string): () => void {
  const former = fs[method]
  const fail = () => {
    throw Object.assign(new Error(`${code}: write`), { code })
  }
  const restore = () => void Object.assign(fs, { [method]: former })
  Object.assign(fs, { [method]: fail })
  t.teardown(restore)
  return restore
}

async function assertStopped(t: Test, app: TestApp, logs: readonly string[], why: RegExp): Promise<void> {
  for (const ask of [listProducts, createProduct, listProducts, createProduct])
    assertUnavailable(t, await ask(app))
  assertUnavailable(t, await app.anybody.get('/readyz'))
  t.equal((await app.anybody.get('/livez')).status, 200)
  t.match(logs.join(''), /The embedded database has stopped; restart the server/, 'the log says what to do')
  t.match(logs.join(''), why, 'and why')
}

/** Starts an app, and returns it with its log. */
async function start(t: Test, database: Database) {
  const logs: string[] = []
  const app = await testApp(
    t,
    { LOG_LEVEL: 'error' },
    { database, logs: { write: (line) => logs.push(line) } },
  )
  return { app, logs }
}

for (const [method, code, name, why] of [
  ['writeSync', 'ENOSPC', 'a full disk', /PANIC: .*No space left on device/],
  ['writeSync', 'EROFS', 'a disk that has become read-only', /PANIC: .*Read-only file system/],
  ['fsyncSync', 'EIO', 'a disk that cannot be synced', /PANIC: .*could not fsync/],
] as const) {
  t.test(`${name} stops the embedded database, and acknowledged writes exist after a restart`, async (t) => {
    const dataDir = testFolder(t)
    const { app, logs } = await start(t, await testEmbedded(t, dataDir))
    const written: Reply[] = []
    for (let i = 0; i < 5; i += 1) written.push(await createProduct(app))
    const restore = failFiles(t, method, code)
    assertUnavailable(t, await createProduct(app))
    restore()
    await assertStopped(t, app, logs, why)
    await app.app.close()

    const again = await testApp(t, {}, { database: await testEmbedded(t, dataDir) })
    const known = new Set(await collectIds(again.admin, '/products'))
    t.ok(written.every(({ status, body }) => status === 201 && known.has(body.data.id)))
    t.ok(known.size <= 6, 'at most the uncertain one more')
    t.equal((await createProduct(again)).status, 201)
  })
}

t.test('a WebAssembly trap stops the embedded database: requests get 503', async (t) => {
  // An engine that trapped leaves timers behind, which would keep the process alive.
  const { setTimeout } = globalThis
  const unreferenced = (...args: Parameters<typeof setTimeout>) => setTimeout(...args).unref()
  Object.assign(globalThis, { setTimeout: Object.assign(unreferenced, setTimeout) })
  t.teardown(() => Object.assign(globalThis, { setTimeout }))
  const database = await testEmbedded(t)
  const { app, logs } = await start(t, database)
  t.equal((await listProducts(app)).status, 200)
  // Deeper than the stack of the engine, which it does not check as a server does.
  const trap = database.run(`select ${Array.from({ length: 5_000 }, () => '1').join('+')}`)
  const pending = [listProducts(app), createProduct(app), app.anybody.get('/readyz')]
  await t.rejects(trap, { name: 'DatabaseUnavailable' })
  await wait(0)
  for (const reply of await Promise.all(pending)) assertUnavailable(t, reply)
  await assertStopped(t, app, logs, /RangeError|RuntimeError/)
})
