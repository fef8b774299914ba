/** Several processes on one database: each event is handled, by one process at a time, also if one is killed. */
import t from 'tap'
import { SERVER } from '../../../testing/helpers/database.ts'
import { startProxy } from '../../../testing/helpers/proxy.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { prepare, startProcess } from './own-processes.ts'

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

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
  const claims = await database.run('select kind from work where claim_id is not null')
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
    const [row] = await database.run(
      `select claim_id is not null and next_attempt_at > now() as is_leased from work where kind = 'consumer:mails'`,
    )
    return row?.is_leased !== true
  })
  await proxy.set('pass')
  await waitUntil(async () => (await countHandled()) === before + 60)
  await check(t)
})
