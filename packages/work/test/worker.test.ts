/** The worker loses no work and no result, whatever fails around an attempt. */
import { setTimeout as wait } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { createDatabase } from '../../database/src/client/database.ts'
import { type Database, type Param, SqlError } from '../../database/src/client/index.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { intercept } from '../../testing/helpers/statements.ts'
import { createDeferred, stopClock, waitUntil } from '../../testing/helpers/time.ts'
import type { WorkKind } from '../src/kinds.ts'
import { createSlots } from '../src/slots.ts'
import { createDueReader, insertWork } from '../src/work-store.ts'
import { Worker } from '../src/worker.ts'

const SAVE = /delete from "work" using r/
const RENEWAL = /^with renewed/
const COUNT = /as waiting/

/** Starts a worker with kinds, and returns the lines of its log. */
async function start(t: Test, database: Database, kinds: WorkKind[]) {
  const lines: { level: number; msg: string }[] = []
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const worker = new Worker({ database, log })
  t.teardown(() => worker.stop())
  worker.start()
  for (const kind of kinds) await worker.add(kind)
  const add = async (kind: string, ...numbers: number[]) => {
    for (const number of numbers) await insertWork(database, { kind, payload: { number } })
    worker.wake()
  }
  const hasLine = (message: RegExp) => lines.some((line) => message.test(line.msg))
  return { add, worker, lines, hasLine }
}

const createKind = (name: string, options: Partial<WorkKind> = {}): WorkKind => ({
  ...{ name, slots: createSlots(20), timeoutMs: 60_000 },
  run: async () => ({ status: 'succeeded', isRemoved: true }),
  fail: (_, error) => ({ status: 'pending', delayMs: 3_600_000, error: String(error) }),
  ...options,
})

const readRows = (database: Database) => database.run('select * from work order by id')

t.test('a row that makes the reading of details fail has failed, and delays no other', async (t) => {
  const database = await createSharedDatabase(t)
  const done: unknown[] = []
  const kind = createKind('work:poison', {
    async load(rows) {
      if (rows.some(({ payload }) => payload.number === 3))
        throw new SqlError('22P02', {}, new Error('a number'))
      return new Map(rows.map(({ id, payload }) => [id, payload.number]))
    },
    async run(_, { details }) {
      done.push(details)
      return { status: 'succeeded', isRemoved: true }
    },
  })
  const { add } = await start(t, database, [kind])
  await add(kind.name, 1, 2, 3, 4, 5)
  await waitUntil(async () => done.length === 4 && (await readRows(database))[0]?.error !== null)
  t.same(done.toSorted(), [1, 2, 4, 5])
  t.match(await readRows(database), [{ payload: { number: 3 }, attempts: 1, claim_id: null }])
})

t.test('what follows the results of one kind fails alone', async (t) => {
  const database = await createSharedDatabase(t)
  const saved: unknown[] = []
  const slots = createSlots(1)
  const broken = createKind('work:a', {
    slots,
    afterSave: async () => {
      throw new Error('broken')
    },
  })
  const other = createKind('work:b', {
    slots: createSlots(1),
    afterSave: async (results) => void saved.push(...results.map(({ row }) => row.kind)),
  })
  const { add, worker, hasLine } = await start(t, database, [broken, other])
  await add(broken.name, 1)
  await add(other.name, 1)
  await waitUntil(() => saved.length === 1)
  await waitUntil(() => hasLine(/what follows/))
  t.notOk(worker.hasFailed)
})

t.test('a count of the rows that takes long delays no claim', async (t) => {
  const shared = await createSharedDatabase(t)
  const [counting, counted] = [createDeferred(), createDeferred()]
  const database = intercept(shared, (text) => {
    if (!COUNT.test(text)) return undefined
    counting.resolve()
    return counted.promise
  })
  let runs = 0
  const kind = createKind('work:a', {
    run: async () => {
      runs += 1
      return { status: 'succeeded', isRemoved: true }
    },
  })
  const { add } = await start(t, database, [kind])
  t.teardown(() => counted.resolve())
  await counting.promise
  await add(kind.name, 1)
  await t.resolves(waitUntil(() => runs === 1, 10_000))
  counted.resolve()
})

t.test('renewals and results are not stored at the same time', async (t) => {
  const shared = await createSharedDatabase(t)
  const sent: string[] = []
  const renewal = createDeferred()
  const saving = createDeferred()
  const ends = [createDeferred(), createDeferred()]
  const ids: string[] = []
  let renewals: string[] = []
  const database = intercept(shared, (text, params: readonly Param[]) => {
    if (RENEWAL.test(text)) {
      sent.push('renewal')
      renewals.push(JSON.stringify(params))
      return renewal.promise
    }
    if (!SAVE.test(text)) return undefined
    sent.push('save')
    return saving.promise
  })
  const kind = createKind('work:a', {
    leaseMs: 900,
    async run({ id, payload }) {
      ids.push(id)
      await ends[Number(payload.number)]?.promise
      return { status: 'succeeded', isRemoved: true }
    },
  })
  const { add } = await start(t, database, [kind])
  // Before the worker stops.
  t.teardown(() => {
    for (const { resolve } of [renewal, saving, ...ends]) resolve()
  })
  await add(kind.name, 0, 1)
  await waitUntil(() => sent.length > 0)
  ends[0]?.resolve()
  await wait(100)
  t.same(sent, ['renewal'], 'the result waits')
  renewal.resolve()
  await waitUntil(() => sent.includes('save'))
  renewals = []
  await waitUntil(() => renewals.length > 0)
  t.notMatch(renewals.join(), String(ids[0]))
  t.match(renewals.join(), String(ids[1]))
})

t.test('attempts that take too long or are interrupted are in the log', async (t) => {
  const database = await createSharedDatabase(t)
  const never = createDeferred()
  // It ignores its signal, and is not given up.
  const stuck = createKind('work:stuck', {
    ...{ timeoutMs: 50, isExclusive: true },
    run: async () => {
      await never.promise
      return { status: 'pending' }
    },
  })
  const aborted = createKind('work:aborted', {
    run: (_, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const { add, worker, lines, hasLine } = await start(t, database, [stuck, aborted])
  t.teardown(() => never.resolve())
  await add(stuck.name, 1)
  await add(aborted.name, 1)
  await waitUntil(() => hasLine(/longer than its timeout/))
  await waitUntil(async () => (await readRows(database)).every(({ claim_id }) => claim_id !== null))
  await worker.pause()
  await waitUntil(() => hasLine(/interrupted/))
  const reason = 'AbortError: the process shuts down'
  t.match(lines, [
    { level: 40, kind: 'work:stuck', timeout_ms: 50 },
    { level: 30, kind: 'work:aborted', reason },
  ])
})

t.test('a database that is away is asked less and less often', async (t) => {
  const shared = await createSharedDatabase(t)
  const times: number[] = []
  let isAway = false
  const database = intercept(shared, (text) => {
    if (!isAway || !/due_in_ms/.test(text)) return undefined
    times.push(performance.now())
    return Promise.reject(new Error('no connection'))
  })
  const { worker } = await start(t, database, [createKind('work:a')])
  isAway = true
  worker.wake()
  await waitUntil(() => times.length === 3)
  const [, second = 0, third = 0] = times
  // A busy machine can only make it longer. A second passes after the first failure.
  t.ok(third - second > 1_900, `${third - second} ms`)
  isAway = false
})

t.test('work that waits is kept, whatever its age', async (t) => {
  const database = await createSharedDatabase(t)
  const { worker } = await start(t, database, [])
  await worker.add(createKind('work:old', { keepDays: 30, slots: createSlots(0) }))
  await database.run(
    `insert into work (id, kind, key, status, next_attempt_at)
     select ('01000000-0000-7000-8000-00000000000' || i)::uuid, 'work:old', i::text, 'pending',
       case when i = 1 then null when i = 2 then now() else now() + interval '1 day' end from generate_series(1, 3) as i`,
  )
  await worker.prune()
  t.same(
    (await readRows(database)).map(({ key }) => key),
    ['2', '3'],
  )
})

t.test('a statement that has taken long is planned for its values for a while', async (t) => {
  const shared = await createSharedDatabase(t)
  const clock = stopClock(t)
  const planned: boolean[] = []
  let durationMs = 0
  const database = createDatabase({
    ...shared.$client,
    run(text, params = [], options = {}) {
      planned.push(options.customPlan === true)
      clock.pass(durationMs)
      return shared.$client.run(text, params, options)
    },
  })
  const readDue = createDueReader([createKind('work:a')])
  // An earlier statement of this process may have taken long.
  clock.pass(61_000)
  durationMs = 60
  await readDue(database, 1_000)
  durationMs = 0
  await readDue(database, 1_000)
  clock.pass(61_000)
  await readDue(database, 1_000)
  t.same(planned, [false, true, false])
})
