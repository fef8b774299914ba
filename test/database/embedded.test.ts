/** The embedded database is opened by one process at a time, and commits are durable. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openEmbedded } from '../../drizzle/client/embedded/embedded.ts'
import { EMBEDDED_VERSION } from '../../drizzle/client/embedded/engine.ts'
import { lockFolder } from '../../drizzle/client/embedded/folder-lock.ts'
import { DatabaseUnavailable, FolderInUse } from '../../drizzle/client/index.ts'
import { type Owner, testEmbedded, testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Another process of Node, running `code`, and a way to await its next line. */
function startProcess(t: Owner, code: string) {
  const child: ChildProcess = spawn(
    process.execPath,
    ['--import=./test/helpers/typescript.js', '--input-type=module', '-e', code],
    { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  t.teardown(() => child.kill('SIGKILL'))
  if (!child.stdout) throw new Error('no output')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    child,
    line: async (): Promise<string> => String((await lines.next()).value),
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

/** Counts what is synced while the test runs, or makes it fail. */
function watchSyncs(t: Owner) {
  const { fsyncSync } = fs
  const seen = { count: 0, failing: false }
  fs.fsyncSync = (fd) => {
    seen.count += 1
    if (seen.failing) throw new Error('EIO')
    fsyncSync(fd)
  }
  t.teardown(() => {
    fs.fsyncSync = fsyncSync
  })
  return seen
}

t.test('a folder in use is refused with its path and the process id', async (t) => {
  const folder = testFolder(t)
  const { line, kill, child } = startProcess(
    t,
    `import { lockFolder } from './drizzle/client/embedded/folder-lock.ts'
     await lockFolder(${JSON.stringify(folder)})
     console.log('locked')
     setInterval(() => {}, 1000)`,
  )
  t.equal(await line(), 'locked')
  const refused = {
    name: 'FolderInUse',
    message: `${fs.realpathSync(folder)} is in use by another process (pid ${child.pid})`,
  }
  await t.rejects(lockFolder(folder), refused)
  await t.rejects(openEmbedded({ dataDir: folder }), FolderInUse, 'and nothing is opened')
  t.notOk(fs.existsSync(join(folder, 'postgres')))
  await kill()
  const lock = await lockFolder(folder)
  t.pass('kill -9 frees it')
  t.equal(fs.readFileSync(join(folder, 'lock'), 'utf8'), `${process.pid}\n`)
  await t.rejects(lockFolder(folder), FolderInUse, 'a second time in one process is one too many as well')
  const link = `${folder}-link`
  fs.symlinkSync(folder, link)
  t.teardown(() => fs.unlinkSync(link))
  await t.rejects(lockFolder(link), FolderInUse, 'by another name too')
  lock.release()
  lock.release()
  const again = await lockFolder(folder)
  again.release()
})

t.test('a folder that cannot be locked is not opened', async (t) => {
  const { line } = startProcess(
    t,
    `import { lockFolder } from './drizzle/client/embedded/folder-lock.ts'
     Object.defineProperty(process, 'arch', { value: 'pdp11' })
     await lockFolder(${JSON.stringify(testFolder(t))}).catch((error) => console.log(error.message))`,
  )
  t.match(await line(), /cannot be locked on this platform \(.*-pdp11; .*DATABASE_URL/)
})

t.test('a commit is synced to disk and exists after reopening', async (t) => {
  const folder = join(testFolder(t), 'made', 'for', 'it')
  const syncs = watchSyncs(t)
  const db = await openEmbedded({ dataDir: folder })
  const files = fs.readdirSync(join(folder, 'postgres'), { recursive: true }).length
  t.ok(syncs.count > files * 0.95, `all of a new folder is synced: ${syncs.count} of ${files}`)
  t.equal(fs.statSync(folder).mode & 0o777, 0o700)
  t.equal(fs.statSync(join(folder, 'postgres')).mode & 0o777, 0o700)
  t.notOk(fs.existsSync(join(folder, 'postgres.new')))

  await db.run('create table kept (i int)')
  syncs.count = 0
  for (let i = 0; i < 20; i++) await db.run('insert into kept values ($1)', [i])
  t.equal(syncs.count, 20, 'one sync for each commit')
  await db.transaction(async (tx) => {
    for (let i = 0; i < 10; i++) await tx.run('insert into kept values ($1)', [i])
  })
  t.equal(syncs.count, 21, 'and one for a transaction')
  await db.run('select * from kept')
  t.equal(syncs.count, 21, 'none for reading')
  await db.run('checkpoint')
  t.ok(syncs.count > 25, `a checkpoint syncs the tables: ${syncs.count - 21}`)
  const [settings] =
    await db.run(`select current_setting('fsync') as fsync, current_setting('TimeZone') as zone,
    current_setting('synchronous_commit') as commit, current_setting('full_page_writes') as pages,
    current_setting('server_version_num')::int / 10000 as major`)
  t.strictSame(settings, {
    fsync: 'on',
    zone: 'UTC',
    commit: 'on',
    pages: 'on',
    major: Number(EMBEDDED_VERSION),
  })
  await db.close()

  const again = await openEmbedded({ dataDir: folder })
  t.strictSame(await again.run('select count(*) from kept'), [{ count: 30 }])
  await again.close()

  fs.writeFileSync(join(folder, 'postgres', 'PG_VERSION'), '12\n')
  await t.rejects(openEmbedded({ dataDir: folder }), {
    message: /of PostgreSQL 12, but this release has PostgreSQL 18/,
  })
  fs.rmSync(join(folder, 'postgres', 'PG_VERSION'))
  await t.rejects(openEmbedded({ dataDir: folder }), { message: /holds no database/ })
  const lock = await lockFolder(folder)
  t.pass('and the lock is not kept')
  lock.release()
})

t.test('a folder is opened with 8 MB of shared buffers, as a database in memory is', async (t) => {
  for (const db of [await testEmbedded(t, testFolder(t)), await testEmbedded(t)])
    t.same(await db.run('show shared_buffers'), [{ shared_buffers: '8MB' }])
})

t.test('a failing disk stops the database, and no later write is acknowledged', async (t) => {
  const folder = testFolder(t)
  const syncs = watchSyncs(t)
  const db = await testEmbedded(t, folder)
  await db.run('create table kept (i int)')
  syncs.failing = true
  await t.rejects(
    db.transaction((tx) => tx.run('insert into kept values (1)')),
    DatabaseUnavailable,
  )
  syncs.failing = false
  await t.rejects(db.run('select 1'), {
    name: 'DatabaseUnavailable',
    message: /stopped; .*PANIC: .*could not fsync/,
  })
  await t.rejects(db.ping(1000), DatabaseUnavailable)
  syncs.count = 0
  await db.close()
  t.equal(syncs.count, 0, 'closing writes nothing')
  const again = await openEmbedded({ dataDir: folder })
  await again.run(`select * from ${db.schema}.kept`)
  await again.close()
})
