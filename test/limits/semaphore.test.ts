/** The semaphore runs a limited number of tasks, queues the others in order, and limits their wait. */
import { once } from 'node:events'
import { setImmediate as beginTurn, setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { DatabaseUnavailable } from '../../drizzle/client/errors.ts'
import { Semaphore, type SemaphoreOptions } from '../../lib/semaphore.ts'
import { createDeferred } from '../helpers/time.ts'

/** Creates a semaphore whose members are empty objects. */
const createGate = ({ size, ...limits }: SemaphoreOptions & { size: number }) =>
  new Semaphore(
    Array.from({ length: size }, () => ({})),
    { createError: (reason) => new DatabaseUnavailable(reason), ...limits },
  )

t.test('at most `size` tasks run, in the order of their arrival', async (t) => {
  const gate = createGate({ size: 3 })
  const order: number[] = []
  let most = 0
  const run = (i: number) =>
    gate.run(async () => {
      most = Math.max(most, gate.used)
      order.push(i)
      await wait(i % 3)
    })
  await Promise.all(Array.from({ length: 50 }, (_, i) => run(i)))
  t.equal(most, 3)
  t.strictSame(order, [...Array(50).keys()])
})

t.test('each task has a member exclusively and returns it even when it fails', async (t) => {
  const gate = new Semaphore([{ used: false }, { used: false }])
  const results = await Promise.allSettled(
    Array.from({ length: 30 }, (_, i) =>
      gate.run(async (member) => {
        if (member.used) throw new Error('lent twice')
        member.used = true
        await wait(1)
        member.used = false
        if (i % 2) throw new Error('as it must')
      }),
    ),
  )
  const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.message] : []))
  t.strictSame(reasons, Array(15).fill('as it must'))
  t.equal(gate.used, 0)
})

t.test('the length of the queue and the wait are limited', async (t) => {
  const gate = createGate({ size: 1, acquireTimeout: 400, maxWaiting: 3 })
  const start = performance.now()
  const long = gate.run(() => wait(2000))
  const took = async (work: () => Promise<unknown>) => {
    await t.rejects(gate.run(work), DatabaseUnavailable)
    return performance.now() - start
  }
  const early = took(() => wait(0))
  await wait(50)
  const late = [took(() => wait(0)), took(() => wait(0))]
  const beyond = await took(() => wait(0))
  t.ok(beyond < 395, `the fourth in line is refused immediately: ${beyond}`)
  const first = await early
  t.ok(first >= 399 && first < 1800, `the first after 400 ms: ${first}`)
  for (const each of await Promise.all(late))
    t.ok(each >= 449 && each < 1900, `those who came later, later: ${each}`)
  await long
  t.equal(await gate.run(async () => 'open'), 'open', 'who gave up takes nothing away')
})

// After `beginTurn`, timers are the next that the event loop runs.

/** Keeps the event loop busy. */
function block(milliseconds: number) {
  for (const end = performance.now() + milliseconds; performance.now() < end; );
}

t.test('a pause of the process refuses no caller for whom a member was released', async (t) => {
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
})

t.test('a pause of the process refuses no caller who waits for the next time slice', async (t) => {
  const gate = createGate({ size: 1, timeSlice: 1, acquireTimeout: 20 })
  await beginTurn()
  await gate.run(async () => block(5))
  const second = gate.run(async () => 'second')
  block(100)
  t.equal(await second, 'second')
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
    await wait(5)
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
  const work = async () => {
    for (const end = performance.now() + 2; performance.now() < end; );
  }
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

t.test('estimateWait follows from the recent rate of the queue', async (t) => {
  const gate = createGate({ size: 1 })
  t.equal(gate.estimateWait(), 0)
  const steps = Array.from({ length: 60 }, createDeferred)
  const all = steps.map(({ promise }) => gate.run(() => promise))
  t.equal(gate.waiting, 59)
  const began = performance.now()
  for (const { resolve } of steps.slice(0, 40)) {
    await wait(5)
    resolve()
  }
  await wait(0)
  const pace = (performance.now() - began) / 40
  t.equal(gate.waiting, 19)
  t.ok(
    gate.estimateWait() > (19 * 5) / 2 && gate.estimateWait() < 19 * pace * 5,
    `${gate.estimateWait()} ms for 19`,
  )
  for (const { resolve } of steps) resolve()
  await Promise.all(all)
  t.equal(gate.estimateWait(), 0, 'no wait is expected while the queue is empty')
})

t.test('the rate of an earlier queue does not affect an estimate a second later', async (t) => {
  const gate = createGate({ size: 1 })
  const line = (milliseconds: number) => Array.from({ length: 12 }, () => gate.run(() => wait(milliseconds)))
  await Promise.all(line(40))
  const soon = line(1)
  t.ok(gate.estimateWait() >= 300, `immediately it does: ${gate.estimateWait()}`)
  await Promise.all(soon)
  await wait(1100)
  const later = line(1)
  t.equal(gate.waiting, 11)
  t.equal(gate.estimateWait(), 0)
  await Promise.all(later)
})

t.test('the first completion of a burst does not determine the estimate', async (t) => {
  const gate = createGate({ size: 40 })
  const seen: number[] = []
  const turn = async () => {
    await wait(50)
    seen.push(gate.estimateWait())
  }
  await Promise.all(Array.from({ length: 200 }, () => gate.run(turn)))
  t.ok(Math.max(...seen) < 1_000, `${Math.max(...seen)} ms for five turns of 50 ms`)
})
