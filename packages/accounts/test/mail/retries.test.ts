/** When a mail that failed is attempted again: by its own delays, and soon after the server takes mails again. */
import t from 'tap'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { getRetryDelay } from '../../src/mail/kind.ts'
import { advanceWaiting } from '../../src/mail/mail-store.ts'
import { createRecovery } from '../../src/mail/recovery.ts'

const HOUR = 3_600
const toSeconds = (milliseconds: number | null) => milliseconds && milliseconds / 1_000

t.test('the delays begin with 5 s, 30 s and 2 min, and end after 24 hours', async (t) => {
  const middle = [1, 2, 3, 4, 5, 6, 7, 8, 20]
    .map((attempts) => getRetryDelay(attempts, 0, () => 0.5))
    .map(toSeconds)
  t.same(middle, [5, 30, 120, 600, HOUR, 3 * HOUR, 6 * HOUR, 6 * HOUR, 6 * HOUR])
  const ends = [0, 1].map((random) => getRetryDelay(2, 0, () => random)).map(toSeconds)
  t.same(ends, [27, 33])
  const late = [0, 1].map((more) => getRetryDelay(7, (18 * HOUR + more) * 1_000, () => 0.5)).map(toSeconds)
  t.same(late, [6 * HOUR, null])
})

const unreachable = new Error('connect ECONNREFUSED')
const refuse = (command: string, responseCode: number) =>
  Object.assign(new Error('refused'), { command, responseCode })

/** Creates a recovery with a clock of its own. */
function createClocked(hasMore = false) {
  let [now, advanced, isBroken] = [0, 0, false]
  const recovery = createRecovery(
    async () => {
      if (isBroken) throw new Error('no database')
      advanced += 1
      return { spread: 3, hasMore }
    },
    () => now,
  )
  /** Makes an attempt that takes a second, and returns how often mails were advanced until then. */
  const attempt = async (failure?: Error, during = async () => {}) => {
    const sent = recovery.observe(async () => {
      await during()
      now += 1_000
      if (failure) throw failure
    })
    await sent.then(recovery.settle).catch(() => {})
    return advanced
  }
  return {
    attempt,
    wait: (ms: number) => (now += ms),
    breakDatabase: (value: boolean) => (isBroken = value),
  }
}

t.test('mails that wait are advanced by the first mail that the server takes after a failure', async (t) => {
  const { attempt, wait } = createClocked()
  t.equal(await attempt(unreachable), 0)
  t.equal(await attempt(), 1, 'the process before may have seen an outage')
  wait(60_000)
  t.equal(await attempt(), 1, 'there was no failure since')
  for (const failure of [
    unreachable,
    refuse('AUTH PLAIN', 535),
    refuse('MAIL FROM', 550),
    refuse('CONN', 421),
  ]) {
    const before = await attempt(failure)
    t.equal(await attempt(failure), before, 'not while it fails')
    t.equal(await attempt(), before + 1, failure.message)
    wait(60_000)
  }
})

t.test('a refusal of one mail, or its failure while others are taken, advances none', async (t) => {
  const { attempt, wait } = createClocked()
  t.equal(await attempt(), 1)
  wait(60_000)
  for (const failure of [refuse('RCPT TO', 451), refuse('DATA', 452), refuse('RCPT TO', 550)]) {
    await attempt(failure)
    t.equal(await attempt(), 1)
  }
  await attempt(unreachable, async () => void (await attempt()))
  t.equal(await attempt(), 1)
})

t.test('mails are advanced again when those that were are due, or the database answers', async (t) => {
  const { attempt, wait } = createClocked(true)
  t.equal(await attempt(), 1)
  t.equal(await attempt(), 1, 'a second later')
  wait(2_000)
  t.equal(await attempt(), 2, 'others waited')
  const broken = createClocked()
  broken.breakDatabase(true)
  t.equal(await broken.attempt(), 0)
  broken.breakDatabase(false)
  t.equal(await broken.attempt(), 1)
})

t.test('mails that wait are spread over seconds, those whose attempt runs keep their lease', async (t) => {
  const database = await testDatabase(t)
  const insert = (kind: string, count: number, delay: string | null, isRunning = false) =>
    database.run(
      `insert into work (kind, key, attempts, next_attempt_at, claim_id)
       select 'mail', $1 || i, 1, now() + $3::interval, case when $4 then gen_random_uuid() end from generate_series(1, $2::int) as i`,
      [kind, count, delay, isRunning],
    )
  /** Returns the seconds until the first and the last mail of a kind are due, and how many seconds have one. */
  const read = async (kind: string) => {
    const [row] = await database.run(
      `select extract(epoch from min(next_attempt_at) - now())::float8 as first,
        extract(epoch from max(next_attempt_at) - now())::float8 as last,
        extract(epoch from max(next_attempt_at) - min(next_attempt_at))::float8 as spread,
        count(distinct next_attempt_at)::int as times from work where key like $1 || '%'`,
      [kind],
    )
    // The columns of the statement.
    return row as { first: number; last: number; spread: number; times: number }
  }
  await insert('waiting', 10, '1 hour')
  await insert('running', 2, '1 hour', true)
  await insert('failed', 1, null)
  t.same(await advanceWaiting(database), { spread: 3, hasMore: false })
  const waiting = await read('waiting')
  t.ok(waiting.last <= 3, `${waiting.last} s`)
  t.match(waiting, { spread: 2.7, times: 10 })
  t.ok((await read('running')).first > 60)
  t.match(await read('failed'), { last: null })

  await insert('soon', 1, '1 second')
  const due = await read('soon')
  await advanceWaiting(database)
  t.ok((await read('soon')).last <= due.last, 'none is put off')

  await database.run('delete from work')
  await insert('many', 1_100, '1 hour')
  t.same(await advanceWaiting(database), { spread: 50, hasMore: true })
  const [{ count } = {}] = await database.run(
    `select count(*)::int as count from work where next_attempt_at < now() + interval '30 minutes'`,
  )
  t.equal(count, 1_000)
})
