/** Several processes on one database: each event is handled, by one process at a time, also if one is killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { APP_SECRET } from '../../../testing/helpers/app.ts'
import {
  openDatabase,
  SERVER,
  testDatabaseUrl,
  testFolder,
  withSchema,
} from '../../../testing/helpers/database.ts'
import { insertEvent } from '../../../testing/helpers/events.ts'
import { SOURCE_FLAGS } from '../../../testing/helpers/process.ts'
import { startProxy } from '../../../testing/helpers/proxy.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

/** Long enough that a busy machine seldom delays the renewals of a claim until it is lost. */
const LEASE_MS = 3_000

/** Starts a process of `own-process.ts`. */
async function startProcess(t: Test, url: string) {
  const env = withSchema({
    ...{ PATH: process.env.PATH, NODE_ENV: 'test', LOG_LEVEL: 'silent', POOL_SIZE: '4' },
    ...{ DATABASE_URL: url, DATA_DIR: testFolder(t), APP_SECRET, ADMIN_PASSWORD: 'correct horse battery' },
  })
  const args = [...SOURCE_FLAGS, 'packages/events/test/jobs/own-process.ts', `${LEASE_MS}`]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
  const started = once(child.stdout, 'data')
  await Promise.race([
    started,
    closed.then(([code]) => Promise.reject(new Error(`The process has ended with code ${code}`))),
  ])
  return { child, closed, pid: Number(child.pid) }
}

async function prepare(t: Test) {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, statementTimeout: 0 })
  t.teardown(() => database.close())
  await database.run(
    'create table work_done (run uuid, name text, position bigint, pid int, begun_at timestamptz, ended_at timestamptz)',
  )
  const addUsers = async (count: number) => {
    for (let i = 0; i < count; i++) await insertEvent(database, { type: 'users.created' })
  }
  const readNumber = async (select: string) => {
    const [row] = await database.run(`select ${select}`)
    return Number(row?.number)
  }
  const countHandled = () =>
    readNumber(
      `count(distinct position) as number from work_done where name = 'consumer' and ended_at is not null`,
    )
  /** Returns the process that works now. */
  const findWorker = () =>
    readNumber(
      `pid as number from work_done where name = 'consumer' and ended_at is null order by begun_at desc limit 1`,
    )
  /** Checks that no work of one process overlaps with that of another one, and that events came in their order. */
  const check = async (checked: Test) => {
    const overlaps = await database.run(
      `select a.name, a.position, b.position as other from work_done a
       join work_done b on a.name = b.name and a.run <> b.run
         and b.begun_at between a.begun_at and coalesce(a.ended_at, a.begun_at)`,
    )
    checked.same(overlaps, [], 'one at a time')
    const disordered = await database.run(
      `select position from (
         select position, max(position) over (order by begun_at) as highest from work_done where name = 'consumer'
       ) as work where position < highest`,
    )
    checked.same(disordered, [], 'in the order of positions')
  }
  return { url, database, addUsers, countHandled, findWorker, check }
}

t.test('an event is handled by one process, and by another one if it is killed', { skip }, async (t) => {
  const { url, database, addUsers, countHandled, findWorker, check } = await prepare(t)
  const processes = [await startProcess(t, url), await startProcess(t, url)]
  const before = await countHandled()
  await addUsers(100)
  await waitUntil(async () => (await countHandled()) > before + 20)
  let killed = 0
  await waitUntil(async () => {
    killed = await findWorker()
    return processes.some(({ pid }) => pid === killed)
  })
  const victim = processes.find(({ pid }) => pid === killed)
  victim?.child.kill('SIGKILL')
  await victim?.closed
  processes.push(await startProcess(t, url))
  await addUsers(20)
  await waitUntil(async () => (await countHandled()) === before + 120)
  await check(t)
  const repeated = await database.run(
    `select position from work_done where name = 'consumer' group by position having count(*) > 1`,
  )
  t.ok(repeated.length <= 1, 'only the event in progress is repeated')

  for (const { child } of processes) child.kill('SIGTERM')
  await Promise.all(processes.map(({ closed }) => closed))
  const claims = await database.run(
    'select name from event_consumers where claim_id is not null union all select name from scheduled_jobs where claim_id is not null',
  )
  t.same(claims, [], 'a shutdown gives claims back')
  const [jobs] = await database.run(`select count(distinct pid) as count from work_done where name = 'job'`)
  t.ok(Number(jobs?.count) > 0, 'the job ran')
})

t.test('consumers go on when the database is back', { skip }, async (t) => {
  const { url, database, addUsers, countHandled, check } = await prepare(t)
  const proxy = await startProxy(t, url)
  for (let i = 0; i < 2; i++) await startProcess(t, proxy.url)
  const before = await countHandled()
  await addUsers(30)
  await waitUntil(async () => (await countHandled()) > before + 5)
  await proxy.set('refuse')
  await addUsers(30)
  await waitUntil(async () => {
    const [row] = await database.run('select leased_until > now() as is_leased from event_consumers')
    return row?.is_leased !== true
  })
  await proxy.set('pass')
  await waitUntil(async () => (await countHandled()) === before + 60)
  await check(t)
})
