/** When a job runs next, by an interval and by a cron expression. */
import t from 'tap'
import { defineJob } from '../../src/jobs/definition.ts'

const run = async () => {}
const at = (text: string) => Date.parse(`2026-11-23T${text}Z`)
const MINUTE_MS = 60_000

t.test('an interval goes on from the time that was due, and skips the times that were missed', async (t) => {
  const { schedule } = defineJob({ name: 'hourly', every: '1h', run })
  t.equal(schedule.text, 'every 1h')
  const due = at('03:00:00')
  t.equal(schedule.getNext(due, due), due + 60 * MINUTE_MS)
  t.equal(schedule.getNext(due, due + 5 * MINUTE_MS), due + 60 * MINUTE_MS)
  t.equal(schedule.getNext(due, due + 150 * MINUTE_MS), due + 180 * MINUTE_MS)
  t.equal(schedule.getNext(due, due - 1), due + 60 * MINUTE_MS, 'after a run before its time')
})

t.test('a cron expression is in UTC, and names the first time after now', async (t) => {
  const { schedule } = defineJob({ name: 'nightly', cron: '0 3 * * *', run })
  t.equal(schedule.text, 'cron 0 3 * * *')
  t.equal(schedule.getNext(0, at('02:59:59.999')), at('03:00:00'))
  t.equal(schedule.getNext(0, at('03:00:00')), at('03:00:00') + 24 * 60 * MINUTE_MS)
  t.equal(schedule.getNext(at('03:00:00'), at('02:59:00')), at('03:00:00') + 24 * 60 * MINUTE_MS)
})

t.test('the days of a cron expression are as in crontab(5)', async (t) => {
  for (const [cron, days] of [
    ['0 0 */2 * 1', '04-13 04-27 05-11 05-25'],
    ['0 0 *,5 * 1', '03-30 04-06 04-13 04-20'],
    ['0 0 13 * */2', '06-13 08-13 09-13 10-13'],
    ['0 0 1,15 * 5', '04-01 04-03 04-10 04-15'],
    ['0 0 1-31/2 * 1', '03-29 03-30 03-31 04-01'],
    ['0 0 1 * mon', '03-30 04-01 04-06 04-13'],
    ['0 0 */2 * *', '03-29 03-31 04-01 04-03'],
    ['0 0 * * 7', '03-29 04-05 04-12 04-19'],
    ['0 0 ? * 1', '03-30 04-06 04-13 04-20'],
    ['0 0 L * *', '03-31 04-30 05-31 06-30'],
    ['0 0 * * 1#2', '04-13 05-11 06-08 07-13'],
  ] as const) {
    const { schedule } = defineJob({ name: 'monthly', cron, run })
    let time = Date.parse('2026-03-28T12:00Z')
    const found = Array.from({ length: 4 }, () => {
      time = schedule.getNext(time, time)
      return new Date(time).toISOString().slice(5, 10)
    })
    t.equal(found.join(' '), days, cron)
  }
})

t.test('the fields of a cron expression are separated by any blanks', async (t) => {
  for (const cron of ['0  3 * * *', '0\t3\t* * *', ' 0 3 * * * ']) {
    const { schedule } = defineJob({ name: 'nightly', cron, run })
    t.equal(schedule.text, 'cron 0 3 * * *')
    t.equal(schedule.getNext(0, at('02:59:00')), at('03:00:00'))
  }
})

t.test('a mistake in a job is an error that names the job', async (t) => {
  const mistakes: [Parameters<typeof defineJob>[0], RegExp][] = [
    [{ name: 'a', cron: '0 3 * *', run }, /Job "a": .* has not 5 parts/],
    [{ name: 'a', cron: '* * * * * *', run }, /Job "a": .* has not 5 parts/],
    [{ name: 'a', cron: '61 * * * *', run }, /Job "a": .*minute/],
    [{ name: 'a', cron: '0 0 31 2 *', run }, /Job "a": "0 0 31 2 \*" names no time/],
    [{ name: 'a', every: '0m', run }, /Job "a": "0m" is no duration/],
    [{ name: 'a', every: '1.5h', run }, /Job "a": "1.5h" is no duration/],
    [{ name: 'a', every: '1h', timeout: '-1s', run }, /Job "a": "-1s" is no duration/],
    [{ name: 'Send mails', every: '1h', run }, /Job "Send mails": a name has/],
  ]
  for (const [definition, message] of mistakes) t.throws(() => defineJob(definition), { message })
})
