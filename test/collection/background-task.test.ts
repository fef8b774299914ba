/** A background task repeats its work, reports failures and recoveries, and is awaited when it is stopped. */
import t from 'tap'
import { BackgroundTask } from '../../lib/background-task.ts'

// The timers of a task do not keep the process alive.
const timer = setInterval(() => undefined, 1_000)
t.teardown(() => clearInterval(timer))

const DELAY_MS: number = 1
const HOUR_MS = 3_600_000

/** A task that counts its runs; `next` resolves with the function that ends the next run. */
function createTask(getDelay = () => DELAY_MS, retryDelay = DELAY_MS) {
  type End = (error?: Error) => void
  const begun: ((end: End) => void)[] = []
  const log: string[] = []
  const counter = { runs: 0 }
  const work = () =>
    new Promise<void>((resolve, reject) => {
      counter.runs += 1
      begun.shift()?.((error) => (error ? reject(error) : resolve()))
    })
  const task = new BackgroundTask({
    work,
    getDelay,
    retryDelay,
    onFailure: (error) => log.push(String(error)),
    onRecovery: () => log.push('recovered'),
  })
  return { task, log, counter, next: () => new Promise<End>((resolve) => begun.push(resolve)) }
}

t.test('it repeats after each run, and logs the first of consecutive failures', async (t) => {
  const { task, log, next } = createTask()
  let start = next()
  task.start()
  for (const outcome of [undefined, 'one', 'two', undefined, 'three', undefined]) {
    const end = await start
    start = next()
    end(outcome === undefined ? undefined : new Error(outcome))
  }
  const end = await start
  t.same(log, ['Error: one', 'recovered', 'Error: three', 'recovered'])
  end()
  await task.stop()
})

t.test('it is awaited when it is stopped, and does not start again', async (t) => {
  const { task, counter, next } = createTask()
  const start = next()
  task.start()
  const end = await start
  let isOver = false
  const over = task.stop().then(() => {
    isOver = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  t.notOk(isOver)
  end()
  await over
  t.equal(counter.runs, 1)
})

t.test(
  'it runs earlier when it is woken, but not before the start, during a run or after a failure',
  async (t) => {
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
    await new Promise((resolve) => setTimeout(resolve, 10))
    t.equal(counter.runs, 2)
    await task.stop()
  },
)

t.test('a task whose first run has not begun is not awaited', async (t) => {
  const { task, counter } = createTask()
  task.start(HOUR_MS)
  await task.stop()
  t.equal(counter.runs, 0)
})
