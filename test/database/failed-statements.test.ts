/** A failing statement never changes the result of another one, on any connection and in any order. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { type Connection, type Database, DatabaseUnavailable } from '../../drizzle/client/index.ts'
import type { Row } from '../../drizzle/client/types.ts'
import { testApp } from '../helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../helpers/database.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'
const QUICK = { canBatch: true }

/** Statements that fail, and their SQLSTATE. */
const FAILING = {
  // Behind as many rows as its parameter says.
  divide: ['22012', 'select g, 10 / ($1::int + 1 - g) as quotient from generate_series(1, 10) g'],
  'foreign key': ['23503', 'insert into children values (1, 7) returning *'],
  unique: ['23505', 'insert into written values (0) returning n'],
  'missing column': ['42703', 'select selec'],
} as const

const divide = (on: Connection, rows: number, options = {}) => on.run(FAILING.divide[1], [rows], options)

async function open(
  t: Test,
  options: { poolSize?: number; statementTimeout?: number; acquireTimeout?: number } = {},
) {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, ...options })
  t.teardown(() => database.close())
  return { url, database }
}

const processId = async (database: Database) => (await database.run('select pg_backend_pid() as id'))[0]?.id

t.test('the statement after a timeout gets all of its rows', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1, statementTimeout: 700 })
  const slow = database.run('select g from generate_series(1, 4) g where g < 4 or pg_sleep(2) is not null')
  await t.rejects(slow, { name: 'DatabaseUnavailable', code: '57014' })
  t.strictSame(await database.run('select 1 as n'), [{ n: 1 }])
})

t.test('statements of a batch get their own rows when one of them fails', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1 })
  const read = (n: number) => database.run('select $1::int as n', [n], QUICK)
  for (let round = 0; round < 3; round += 1) {
    const all = [read(1), divide(database, 4, QUICK), read(2), read(3)]
    t.match(await Promise.allSettled(all), [
      { value: [{ n: 1 }] },
      { reason: { code: '22012' } },
      { value: [{ n: 2 }] },
      { value: [{ n: 3 }] },
    ])
  }
})

t.test('stale prepared statements of a batch get their own rows', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1 })
  await database.run('create table one (id int, first int)')
  await database.run('create table two (number int, second int)')
  await database.run('insert into one values (1, 10)')
  await database.run('insert into two values (2, 20)')
  const readBoth = () =>
    Promise.all([
      database.run('select id, first from one where id = $1', [1], QUICK),
      database.run('select number, second from two where number = $1', [2], QUICK),
      database.run('insert into two values (3, $1) returning number, second', [30], QUICK),
      database.run('select $1::int as n', [4], QUICK),
    ])
  for (const [type, first] of [
    ['int', 10],
    ['text', '10'],
    ['bigint', 10],
  ] as const) {
    await database.run(`alter table one alter first type ${type} using first::${type}`)
    await database.run(`alter table two alter second type ${type} using second::${type}`)
    const [one, two, inserted, other] = await readBoth()
    t.strictSame(one, [{ id: 1, first }])
    t.strictSame(two, [{ number: 2, second: type === 'text' ? '20' : 20 }])
    t.strictSame(inserted, [{ number: 3, second: type === 'text' ? '30' : 30 }])
    t.strictSame(other, [{ n: 4 }])
  }
  t.strictSame(await database.run('select count(*) from two where number = 3'), [{ count: 3 }], 'none twice')
})

t.test('a statement with too many parameters fails alone', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1 })
  const read = (n: number) => database.run('select $1::int as n', [n], QUICK)
  await read(0)
  const values = Array.from({ length: 65_534 }, () => 1)
  const text = `select array[${values.map((_, i) => `$${i + 1}`).join()}] as all`
  t.match(await Promise.allSettled([read(1), database.run(text, values, QUICK), read(2)]), [
    { value: [{ n: 1 }] },
    { reason: { name: 'RangeError' } },
    { value: [{ n: 2 }] },
  ])
})

t.test('a connection is replaced only after an error that follows rows', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1 })
  await database.run('create table parents (id int primary key)')
  await database.run('create table children (id int primary key, parent_id int references parents)')
  const before = await processId(database)
  for (const options of [{}, QUICK]) {
    await t.rejects(database.run(FAILING['foreign key'][1], [], options), { code: '23503' })
    await t.rejects(database.run('select 1 / $1::int', [0], options), { code: '22012' })
  }
  t.equal(await processId(database), before, 'not after a violated constraint, which clients cause at will')
  await t.rejects(divide(database, 1))
  const after = await processId(database)
  t.not(after, before)
  t.equal(await processId(database), after)
})

/** What a program does, one of: */
type Step =
  | { kind: 'read'; rows: number; quick: boolean; custom: boolean }
  | { kind: 'write'; quick: boolean }
  | { kind: 'changing'; column: 'first' | 'second'; quick: boolean }
  | { kind: 'transaction'; rows: number }
  | { kind: keyof typeof FAILING; rows: number; quick: boolean; inTransaction: boolean }
  | { kind: 'timeout'; rows: number }
  | { kind: 'cancel' | 'terminate'; rows: number; inTransaction: boolean }

/** Steps that start together. */
interface Turn {
  steps: Step[]
  /** Whether the next turn starts before these have ended. */
  overlaps: boolean
  /** Whether the types of columns change before them, when all that started earlier has ended. */
  alters: boolean
}

const rows = fc.integer({ min: 1, max: 9 })
const [quick, custom, inTransaction] = [fc.boolean(), fc.boolean(), fc.boolean()]
const good: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('read'), rows, quick, custom }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('write'), quick }) },
  fc.record({ kind: fc.constant('changing'), column: fc.constantFrom('first', 'second'), quick }),
  fc.record({ kind: fc.constant('transaction'), rows }),
)
const bad: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('divide', 'divide', 'divide', 'foreign key', 'unique', 'missing column'),
  ...{ rows, quick, inTransaction },
})
/** Faults that only a server has. */
const served: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('timeout'), rows }),
  fc.record({ kind: fc.constantFrom('cancel', 'terminate'), rows, inTransaction }),
)
const turns = (...steps: { weight: number; arbitrary: fc.Arbitrary<Step> }[]): fc.Arbitrary<Turn[]> =>
  fc.array(
    fc.record({
      steps: fc.array(fc.oneof(...steps), { minLength: 1, maxLength: 10 }),
      overlaps: fc.boolean(),
      alters: fc.boolean(),
    }),
    { minLength: 1, maxLength: 5 },
  )

/** Few connections, so that steps share them; waiting for one is no fault that is tested. */
const WAITS = { poolSize: 2, acquireTimeout: 60_000 }

let count = 0
let type = 'int'

/** Sends `rows` rows, then sleeps; its text is found in pg_stat_activity by `name`. */
const sleeping = (name: string) =>
  `select g /* ${name} */ from generate_series(1, $1::int + 1) g where g <= $1::int or pg_sleep(4) is not null`

/** Ends the statement called `name`, or its connection, as soon as it sleeps, once on each connection. */
async function interrupt(admin: Database, how: 'cancel' | 'terminate', name: string, ended: () => boolean) {
  const seen: number[] = []
  while (!ended()) {
    const found = await admin.run(
      `select pid, pg_${how}_backend(pid) from pg_stat_activity where datname = current_database()
       and wait_event = 'PgSleep' and query like $1 and pid <> all($2::int[])`,
      [`select g /* ${name} */%`, `{${seen.join()}}`],
    )
    seen.push(...found.map(({ pid }) => Number(pid)))
  }
}

/** Runs a step; throws where its rows, or its error, are others than they must be. */
async function runStep(database: Database, admin: Database, step: Step, canBeLost: boolean): Promise<void> {
  const inside = (work: (on: Connection) => Promise<Row[]>, isInside: boolean, limits = {}) =>
    isInside ? database.transaction(work, limits) : work(database)
  const check = async (work: Promise<Row[]>, expected: Row[] | string) => {
    const outcome = await work.catch((error: Error) => error)
    if (canBeLost && outcome instanceof DatabaseUnavailable && !outcome.code) return
    const found = outcome instanceof Error ? Reflect.get(outcome, 'code') : outcome
    if (!isDeepStrictEqual(found, expected))
      throw new Error(
        `${JSON.stringify(step)}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`,
      )
  }
  const series = (n: number) => Array.from({ length: n }, (_, i) => ({ g: i + 1, text: `row ${i + 1}` }))
  const READ = `select g, 'row ' || g as text from generate_series(1, $1::int) g`
  const INSERT = 'insert into written values ($1) returning n'

  switch (step.kind) {
    case 'read': {
      const { rows, quick, custom } = step
      return check(database.run(READ, [rows], quick ? QUICK : { customPlan: custom }), series(rows))
    }
    case 'write': {
      const n = ++count
      return check(database.run(INSERT, [n], { canBatch: step.quick }), [{ n }])
    }
    case 'changing': {
      const { column, quick } = step
      const found = database
        .run(`select id as of_${column}, ${column} from changing where id = $1`, [1], { canBatch: quick })
        // Text or a number: the type of the column changes.
        .then((rows) => rows.map((row) => ({ ...row, [column]: Number(row[column]) })))
      return check(found, [{ [`of_${column}`]: 1, [column]: column === 'first' ? 10 : 20 }])
    }
    case 'transaction': {
      const n = ++count
      const work = async (tx: Connection) => [
        ...(await tx.run(READ, [step.rows])),
        ...(await tx.run(INSERT, [n])),
      ]
      return check(database.transaction(work), [...series(step.rows), { n }])
    }
    case 'divide':
    case 'foreign key':
    case 'unique':
    case 'missing column': {
      const [code, text] = FAILING[step.kind]
      const params = step.kind === 'divide' ? [step.rows] : []
      const work = (on: Connection) => on.run(text, params, { canBatch: step.quick })
      return check(inside(work, step.inTransaction), code)
    }
    case 'timeout': {
      const name = `sleeper ${++count}`
      const work = (on: Connection) => on.run(sleeping(name), [step.rows])
      return check(inside(work, true, { statementTimeout: 50 }), '57014')
    }
    case 'cancel':
    case 'terminate': {
      const name = `sleeper ${++count}`
      let hasEnded = false
      const work = inside((on) => on.run(sleeping(name), [step.rows]), step.inTransaction).finally(() => {
        hasEnded = true
      })
      const interrupting = interrupt(admin, step.kind, name, () => hasEnded)
      await check(work, '57014')
      return interrupting
    }
  }
}

async function alterColumns(admin: Database): Promise<void> {
  type = type === 'int' ? 'text' : 'int'
  const change = (column: string) => `alter ${column} type ${type} using ${column}::${type}`
  await admin.run(`alter table changing ${change('first')}, ${change('second')}`)
}

/** Runs a program, and then sees that every connection gives the right rows. */
async function runProgram(database: Database, admin: Database, program: Turn[]): Promise<void> {
  const canBeLost = program.some(({ steps }) => steps.some(({ kind }) => kind === 'terminate'))
  const all: Promise<void>[] = []
  for (const { steps, overlaps, alters } of program) {
    if (alters) {
      await Promise.allSettled(all)
      await alterColumns(admin)
    }
    const turn = Promise.all(steps.map((step) => runStep(database, admin, step, canBeLost))).then(() => {})
    all.push(turn)
    if (!overlaps) await Promise.allSettled(all)
  }
  const outcomes = await Promise.allSettled(all)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  const last: Step = { kind: 'read', rows: 3, quick: false, custom: false }
  await Promise.all(Array.from({ length: 4 }, () => runStep(database, admin, last, canBeLost)))
}

async function createTables(database: Database): Promise<void> {
  type = 'int'
  await database.run('create table parents (id int primary key)')
  await database.run('create table children (id int primary key, parent_id int references parents)')
  await database.run('create table written (n int primary key)')
  await database.run('create table changing (id int, first int, second int)')
  await database.run('insert into written values (0)')
  await database.run('insert into changing values (1, 10, 20)')
}

t.test('no fault of one statement changes the rows of another', async (t) => {
  const database = SERVER ? (await open(t, WAITS)).database : await testDatabase(t)
  await createTables(database)
  const program = turns({ weight: 3, arbitrary: good }, { weight: 2, arbitrary: bad })
  const property = fc.asyncProperty(program, (program) => runProgram(database, database, program))
  await t.resolves(fc.assert(property, { numRuns: 100 }))
})

t.test('no timeout, cancellation or closed connection changes the rows of another', { skip }, async (t) => {
  const { url, database } = await open(t, WAITS)
  const admin = await openDatabase({ url, poolSize: 8, statementTimeout: 0 })
  t.teardown(() => admin.close())
  await createTables(database)
  const program = turns(
    { weight: 6, arbitrary: good },
    { weight: 3, arbitrary: bad },
    { weight: 1, arbitrary: served },
  )
  const property = fc.asyncProperty(program, (program) => runProgram(database, admin, program))
  await t.resolves(fc.assert(property, { numRuns: 60 }))
})

t.test('valid credentials are accepted after a statement that failed on the same connection', async (t) => {
  const database = SERVER ? (await open(t, { ...WAITS, poolSize: 1 })).database : await testDatabase(t)
  const app = await testApp(t, {}, { database })
  const user = { name: 'Someone', email: 'someone@example.com', password: 'correct horse battery' }
  const { name, ...credentials } = user
  t.equal((await app.admin.post('/users', user)).status, 201)
  const { client, bearer } = await app.person('member')
  for (const [credential, status, send] of [
    ['an API key', 200, () => client.get('/users/me')],
    ['a token', 200, () => bearer.get('/users/me')],
    ['a password', 201, () => app.anybody.post('/tokens', { grant_type: 'password', ...credentials })],
  ] as const) {
    await t.rejects(divide(database, 2), { code: '22012' })
    t.equal((await send()).status, status, credential)
  }
  await t.rejects(divide(database, 2), { code: '22012' })
  t.equal((await app.admin.get('/users')).body.data.length, 3, 'a list has all rows')
})
