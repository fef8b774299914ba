/** Starts processes of a project on one database, and checks what they did. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { APP_SECRET } from '../../../testing/helpers/app.ts'
import { openDatabase, testDatabaseUrl, testFolder, withSchema } from '../../../testing/helpers/database.ts'
import { insertEvent } from '../../../testing/helpers/events.ts'
import { SOURCE_FLAGS } from '../../../testing/helpers/process.ts'

/** Long enough that a busy machine seldom delays the renewals of a claim until it is lost. */
const LEASE_MS = 3_000

/** Starts a process of `own-process.ts`. */
export async function startProcess(t: Test, url: string) {
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

export async function prepare(t: Test) {
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
       join work_done b on a.name = b.name and a.run <> b.run and (a.name <> 'work' or a.position = b.position)
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
