/** The semaphore runs a limited number of tasks, queues the others in order, and limits their wait. */
import { once } from 'node:events'
import { setImmediate as beginTurn, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { DatabaseUnavailable } from '../../../database/src/client/errors.ts'
import { Semaphore, type SemaphoreOptions } from '../../../database/src/lib/semaphore.ts'
import { createDeferred, stopClock } from '../../../testing/helpers/time.ts'

/** Creates a semaphore whose members are empty objects. */
const createGate = ({ size, ...limits }: SemaphoreOptions & { size: number }) =>
  new Semaphore(
    Array.from({ length: size }, () => ({})),
    { createError: (reason) => new DatabaseUnavailable(reason), ...limits },
  )

/** Begins tasks that a test lets end. `onEnd` is called as each one does. */
function createLine(gate: Semaphore<object>, length: number, onEnd = () => {}) {
  const steps = Array.from({ length }, createDeferred)
  for (const { promise } of steps) void gate.run(() => promise.then(onEnd))
  return {
    /** Ends tasks one after the other, `count` of them at the same time of the clock; `each` is called before. */
    async finish(total: number, { count = total, each = () => {} } = {}) {
      for (let ended = 0; ended < total; ended += count) {
        each()
        for (const { resolve } of steps.splice(0, count)) {
          resolve()
          await beginTurn()
        }
      }
    },
  }
}

t.test(
  'each task has a member exclusively, in the order of arrival, and returns it also when it fails',
  async (t) => {
    const gate = new Semaphore([{ used: false }, { used: false }, { used: false }])
    const order: number[] = []
    let most = 0
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) =>
        gate.run(async (member) => {
          most = Math.max(most, gate.used)
          order.push(i)
          if (member.used) throw new Error('lent twice')
          member.used = true
          await setTimeout(i % 3)
          member.used = false
          if (i % 2) throw new Error('as it must')
        }),
      ),
    )
    const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.message] : []))
    t.strictSame(reasons, Array(25).fill('as it must'))
    t.strictSame(order, [...Array(50).keys()])
    t.strictSame([most, gate.used], [3, 0])
  },
)

t.test('the length of the queue and the wait are limited', async (t) => {
  const clock = stopClock(t)
  const gate = createGate({ size: 1, acquireTimeout: 20, maxWaiting: 3 })
  const held = createDeferred()
  const long = gate.run(() => held.promise)
  const refused: string[] = []
  const enter = (name: string) =>
    t.rejects(
      gate.run(async () => undefined).finally(() => refused.push(name)),
      DatabaseUnavailable,
    )
  const first = enter('first')
  clock.pass(10)
  const others = [enter('second'), enter('third')]
  await enter('fourth')
  t.strictSame(refused, ['fourth'], 'the others still wait')
  clock.pass(9)
  await setTimeout(60)
  t.equal(gate.waiting, 3)
  clock.pass(1)
  await first
  t.strictSame([refused.at(-1), gate.waiting], ['first', 2])
  clock.pass(10)
  await Promise.all(others)
  t.strictSame(refused, ['fourth', 'first', 'second', 'third'])
  held.resolve()
  await long
  t.equal(await gate.run(async () => 'open'), 'open', 'a caller that gave up takes nothing away')
})

// After `beginTurn`, timers are the next that the event loop runs.

/** Keeps the event loop busy. */
function block(milliseconds: number) {
  for (const end = performance.now() + milliseconds; performance.now() < end; );
}

t.test('a pause of the process refuses no caller whose member or time slice is there', async (t) => {
  const gate = createGate({ size: 1, acquireTimeout: 20 })
  const { port1, port2 } = new MessageChannel()
  await beginTurn()
  const first = gate.run(() => once(port1, 'message'))
  const second = gate.run(async () => 'second')
  port2.postMessage('done')
  block(100)
  t.equal(await second, 'second')
  await first
  port1.close()

  const sliced = createGate({ size: 1, timeSlice: 1, acquireTimeout: 20 })
  await beginTurn()
  await sliced.run(async () => block(5))
  const third = sliced.run(async () => 'third')
  block(100)
  t.equal(await third, 'third')
})

t.test('a caller that waits can be refused, and leaves the queue', async (t) => {
  const gate = createGate({ size: 1, maxWaiting: 1 })
  const held = createDeferred()
  const first = gate.run(() => held.promise)
  let refuse = (_error: Error) => {}
  const second = gate.run(
    async () => 'second',
    (refuseWaiting) => {
      refuse = refuseWaiting
    },
  )
  refuse(new Error('gone'))
  await t.rejects(second, { message: 'gone' })
  t.equal(gate.waiting, 0)
  const third = gate.run(async () => 'third')
  held.resolve()
  await first
  refuse(new Error('too late'))
  t.equal(await third, 'third')
  t.equal(gate.used, 0)
  await gate.close()
})

t.test('closing finishes running and waiting tasks and admits no new ones', async (t) => {
  const gate = createGate({ size: 1 })
  let done = 0
  const work = async () => {
    await setTimeout(5)
    done += 1
  }
  const all = [gate.run(work), gate.run(work), gate.run(work)]
  const closing = Promise.all([gate.close(), gate.close()])
  await t.rejects(gate.run(work), DatabaseUnavailable)
  await closing
  t.equal(done, 3)
  await Promise.all(all)
  await gate.close()
})

t.test('synchronous tasks yield to the event loop', async (t) => {
  const gate = createGate({ size: 1, timeSlice: 5 })
  const work = async () => block(2)
  let turns = 0
  let isOver = false
  const count = () => {
    turns += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await Promise.all(Array.from({ length: 60 }, () => gate.run(work)))
  isOver = true
  t.ok(turns >= 15, `${turns} turns in 120 ms of work`)
  const closing = [gate.run(work), gate.run(work), gate.run(work), gate.run(work)]
  await gate.close()
  await Promise.all(closing)
})

t.test('estimateWait follows from the rate of the queue within the last second', async (t) => {
  const clock = stopClock(t)
  const gate = createGate({ size: 1 })
  t.equal(gate.estimateWait(), 0)
  const line = createLine(gate, 60)
  t.equal(gate.waiting, 59)
  await line.finish(40, { count: 1, each: () => clock.pass(40) })
  t.equal(gate.waiting, 19)
  t.ok(Math.abs(gate.estimateWait() - 19 * 40) < 1, `${gate.estimateWait()} ms for 19`)
  await line.finish(20)
  t.equal(gate.estimateWait(), 0, 'no wait is expected while the queue is empty')
  const soon = createLine(gate, 12)
  t.ok(gate.estimateWait() >= 200, `immediately it is that of the queue before: ${gate.estimateWait()}`)
  await soon.finish(12)
  clock.pass(1_001)
  const later = createLine(gate, 12)
  t.strictSame([gate.waiting, gate.estimateWait()], [11, 0])
  await later.finish(12)
})

t.test('the first completion of a burst does not determine the estimate', async (t) => {
  const clock = stopClock(t)
  const gate = createGate({ size: 40 })
  const seen: number[] = []
  await createLine(gate, 200, () => seen.push(gate.estimateWait())).finish(200, {
    count: 40,
    each: () => clock.pass(50),
  })
  t.equal(seen.length, 200)
  t.ok(Math.max(...seen) < 1_000, `${Math.max(...seen)} ms for five turns of 50 ms`)
})
