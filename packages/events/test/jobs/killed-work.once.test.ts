/** No work is lost, and none is done by two processes at a time, although one of two processes is killed twenty times. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { SERVER } from '../../../testing/helpers/database.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { prepare, startProcess } from './own-processes.ts'

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

t.test(
  'no work is lost, and none is done by two processes, although one is killed again and again',
  { skip },
  async (t) => {
    const { url, database, check } = await prepare(t)
    const processes = [await startProcess(t, url), await startProcess(t, url)]
    let added = 0
    const add = async (count: number) => {
      await database.run(
        `insert into work (kind, key, payload)
       select 'work:parcel', i::text, jsonb_build_object('number', i) from generate_series($1::int, $2::int) as i`,
        [added + 1, added + count],
      )
      added += count
    }
    const countPending = async () => {
      const [row] = await database.run(
        `select count(*) as count from work where kind = 'work:parcel' and status = 'pending'`,
      )
      return Number(row?.count)
    }
    for (let kills = 0; kills < 20; kills++) {
      await add(20)
      // Rows that wait, run, have ended, and wait after a failure: at another moment each time.
      await wait(kills * 37)
      const victim = processes.shift()
      victim?.child.kill('SIGKILL')
      await victim?.closed
      processes.push(await startProcess(t, url))
    }
    await waitUntil(async () => (await countPending()) === 0, 300_000)
    const [done] = await database.run(
      `select count(*) filter (where status = 'succeeded') as succeeded, count(*) filter (where claim_id is not null) as claimed
     from work where kind = 'work:parcel'`,
    )
    t.same(done, { succeeded: added, claimed: 0 })
    const [ran] = await database.run(
      `select count(distinct position) as count from work_done where name = 'work' and ended_at is not null`,
    )
    t.equal(ran?.count, added)
    await check(t)
  },
)
