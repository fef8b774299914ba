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
