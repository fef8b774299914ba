/** The embedded database is opened by one process at a time, and commits are durable. */
import { once } from 'node:events'
import fs from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Owner, testEmbedded, testFolder } from '../../testing/helpers/database.ts'
import { startCode } from '../../testing/helpers/process.ts'
import { openEmbedded } from '../src/client/embedded/embedded.ts'
import { EMBEDDED_VERSION } from '../src/client/embedded/engine.ts'
import { lockFolder } from '../src/client/embedded/folder-lock.ts'
import { FolderInUse } from '../src/client/index.ts'

/** Counts what is synced while the test runs. */
function watchSyncs(t: Owner) {
  const { fsyncSync } = fs
  const seen = { count: 0 }
  fs.fsyncSync = (fd) => {
    seen.count += 1
    fsyncSync(fd)
  }
  t.teardown(() => {
    fs.fsyncSync = fsyncSync
  })
  return seen
}

t.test('a folder in use is refused with its path and the process id', async (t) => {
  const folder = testFolder(t)
  const { line, child } = await startCode(
    t,
    `import { lockFolder } from './packages/database/src/client/embedded/folder-lock.ts'
     await lockFolder(${JSON.stringify(folder)})
     console.log('locked')
     setInterval(() => {}, 1000)`,
  )
  t.equal(line, 'locked')
  const message = `${fs.realpathSync(folder)} is in use by another process (pid ${child.pid})`
  await t.rejects(lockFolder(folder), { name: 'FolderInUse', message })
  await t.rejects(openEmbedded({ dataDir: folder }), FolderInUse)
  t.notOk(fs.existsSync(join(folder, 'postgres')))
  child.kill('SIGKILL')
  await once(child, 'exit')
  const lock = await lockFolder(folder)
  t.equal(fs.readFileSync(join(folder, 'lock'), 'utf8'), `${process.pid}\n`, 'kill -9 releases it')
  const link = `${folder}-link`
  fs.symlinkSync(folder, link)
  t.teardown(() => fs.unlinkSync(link))
  for (const name of [folder, link]) await t.rejects(lockFolder(name), FolderInUse, 'in the same process')
  lock.release()
  lock.release()
  const again = await lockFolder(folder)
  again.release()
})

t.test('a folder that cannot be locked is not opened', async (t) => {
  const { line } = await startCode(
    t,
    `import { lockFolder } from './packages/database/src/client/embedded/folder-lock.ts'
     Object.defineProperty(process, 'arch', { value: 'pdp11' })
     await lockFolder(${JSON.stringify(testFolder(t))}).catch((error) => console.log(error.message))`,
  )
  t.match(line, /cannot be locked on this platform \(.*-pdp11; .*DATABASE_URL/)
})

t.test('a commit is synced to disk and exists after reopening', async (t) => {
  const folder = join(testFolder(t), 'made', 'for', 'it')
  const syncs = watchSyncs(t)
  const db = await openEmbedded({ dataDir: folder })
  const files = fs.readdirSync(join(folder, 'postgres'), { recursive: true }).length
  t.ok(syncs.count > files * 0.95, `all of a new folder is synced: ${syncs.count} of ${files}`)
  for (const path of [folder, join(folder, 'postgres')]) t.equal(fs.statSync(path).mode & 0o777, 0o700)
  t.notOk(fs.existsSync(join(folder, 'postgres.new')))

  await db.run('create table kept (i int)')
  const insert = 'insert into kept values (1)'
  for (const [work, count] of [
    [() => db.run(insert), 1],
    [() => db.transaction((tx) => Promise.all([tx.run(insert), tx.run(insert)])), 1],
    [() => db.run('select * from kept'), 0],
  ] as const) {
    syncs.count = 0
    await work()
    t.equal(syncs.count, count, 'one sync for each commit, none for a read')
  }
  await db.run('checkpoint')
  t.ok(syncs.count > 4, `a checkpoint syncs the tables: ${syncs.count}`)
  for (const [name, expected] of Object.entries({
    ...{ fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', TimeZone: 'UTC' },
    ...{ shared_buffers: '8MB', server_version: new RegExp(`^${EMBEDDED_VERSION}`) },
  }))
    t.match((await db.run(`select current_setting('${name}') as value`))[0]?.value, expected, name)
  await db.close()

  const again = await openEmbedded({ dataDir: folder })
  t.strictSame(await again.run('select count(*) from kept'), [{ count: 3 }])
  await again.close()

  const versionFile = join(folder, 'postgres', 'PG_VERSION')
  fs.writeFileSync(versionFile, '12\n')
  const message = /of PostgreSQL 12, but this release has PostgreSQL 18/
  await t.rejects(openEmbedded({ dataDir: folder }), { message })
  fs.rmSync(versionFile)
  await t.rejects(openEmbedded({ dataDir: folder }), { message: /holds no database/ })
  const lock = await lockFolder(folder)
  lock.release()
})

t.test('a ping does not wait for the end of a transaction, and changes nothing in it', async (t) => {
  const db = await testEmbedded(t)
  t.same(await db.run('show shared_buffers'), [{ shared_buffers: '8MB' }], 'in memory too')
  await db.transaction(async (tx) => {
    await tx.run('create table pinged (n int)')
    await db.ping(1000)
    await t.rejects(
      tx.savepoint(async () => {
        await tx.run('select 1 / 0').catch(() => {})
        await db.ping(1000)
        throw new Error('undone')
      }),
      { message: 'undone' },
    )
    await tx.run('insert into pinged values (1)')
  })
  t.equal((await db.run('select n from pinged')).length, 1)
})
