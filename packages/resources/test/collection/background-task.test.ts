/** A background task repeats its work, reports failures and recoveries, and is awaited when it is stopped. */
import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { BackgroundTask } from '../../../database/src/lib/background-task.ts'

// The timers of a task do not keep the process alive.
const timer = setInterval(() => undefined, 1_000)
t.teardown(() => clearInterval(timer))

const HOUR_MS = 3_600_000

/** A task that counts its runs; `next` resolves with the function that ends the next run. */
function createTask(getDelay = () => 1, retryDelay = 1) {
  type End = (error?: Error) => void
  const begun: ((end: End) => void)[] = []
  const log: string[] = []
  const counter = { runs: 0 }
  const work = () =>
    new Promise<void>((resolve, reject) => {
      counter.runs += 1
      begun.shift()?.((error) => (error ? reject(error) : resolve()))
    })
  const onFailure = (error: unknown) => log.push(String(error))
  const onRecovery = () => log.push('recovered')
  const task = new BackgroundTask({ work, getDelay, retryDelay, onFailure, onRecovery })
  return { task, log, counter, next: () => new Promise<End>((resolve) => begun.push(resolve)) }
}

t.test('it repeats, logs the first of consecutive failures, and is awaited when it is stopped', async (t) => {
  const { task, log, counter, next } = createTask()
  let start = next()
  task.start()
  for (const outcome of [undefined, 'one', 'two', undefined, 'three', undefined]) {
    const end = await start
    start = next()
    end(outcome === undefined ? undefined : new Error(outcome))
  }
  const end = await start
  t.same(log, ['Error: one', 'recovered', 'Error: three', 'recovered'])
  let isOver = false
  const over = task.stop().then(() => {
    isOver = true
  })
  await setImmediate()
  t.notOk(isOver)
  end()
  await over
  t.equal(counter.runs, 7, 'it does not start again')
})

t.test('woken, it runs earlier, but not before the start, during a run or after a failure', async (t) => {
  let delay = HOUR_MS
  const { task, counter, next } = createTask(() => delay, HOUR_MS)
  const first = next()
  task.wake()
  task.start()
  const endFirst = await first
  const second = next()
  task.wake()
  endFirst()
  await task.running
  delay = 1
  task.wake()
  const endSecond = await second
  endSecond(new Error('failed'))
  await task.running
  task.wake()
  await setTimeout(10)
  t.equal(counter.runs, 2)
  await task.stop()
})

t.test('a task whose first run has not begun is not awaited', async (t) => {
  const { task, counter } = createTask()
  task.start(HOUR_MS)
  await task.stop()
  t.equal(counter.runs, 0)
})
