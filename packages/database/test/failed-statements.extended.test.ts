/** A failing statement never changes the result of another one, on any connection and in any order. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { type Connection, type Database, DatabaseUnavailable } from '../src/client/index.ts'
import type { Row } from '../src/client/types.ts'

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

const TABLES = [
  'create table parents (id int primary key)',
  'create table children (id int primary key, parent_id int references parents)',
]

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

t.test('stale prepared statements of a batch get their own rows', { skip }, async (t) => {
  const { database } = await open(t, { poolSize: 1 })
  await database.run('create table one (id int, first int)')
  await database.run('create table two (number int, second int)')
  await database.run('insert into one values (1, 10)')
  for (const type of ['int', 'text', 'bigint']) {
    await database.run(`alter table one alter first type ${type} using first::${type}`)
    await database.run(`alter table two alter second type ${type} using second::${type}`)
    const to = type === 'text' ? String : Number
    const rows = await Promise.all([
      database.run('select id, first from one where id = $1', [1], QUICK),
      database.run('insert into two values (3, $1) returning number, second', [30], QUICK),
      database.run('select $1::int as n', [4], QUICK),
    ])
    t.strictSame(rows.flat(), [{ id: 1, first: to(10) }, { number: 3, second: to(30) }, { n: 4 }])
  }
  t.strictSame(await database.run('select count(*) from two'), [{ count: 3 }], 'none twice')
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
  for (const statement of TABLES) await database.run(statement)
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

/** Few connections, so that steps share them; waiting for one is no fault that is tested. */
const WAITS = { poolSize: 2, acquireTimeout: 60_000 }
const GOOD = ['read', 'read', 'read', 'write', 'write', 'first', 'second', 'transaction'] as const
const BAD = ['divide', 'divide', 'divide', 'foreign key', 'unique', 'missing column'] as const
/** Faults that only a server has. */
const SERVED = ['timeout', 'cancel', 'terminate'] as const

interface Step {
  kind: (typeof GOOD | typeof BAD | typeof SERVED)[number]
  rows: number
  quick: boolean
  custom: boolean
  inTransaction: boolean
}

interface Turn {
  /** Steps that start together. */
  steps: Step[]
  /** Whether the next turn starts before these have ended. */
  overlaps: boolean
  /** Whether the types of columns change before them, when all that started earlier has ended. */
  alters: boolean
}

const [quick, custom, inTransaction] = [fc.boolean(), fc.boolean(), fc.boolean()]
const turns = (kinds: readonly Step['kind'][]): fc.Arbitrary<Turn[]> => {
  const step = fc.record({
    kind: fc.constantFrom(...kinds),
    ...{ rows: fc.integer({ min: 1, max: 9 }), quick, custom, inTransaction },
  })
  const steps = fc.array(step, { minLength: 1, maxLength: 10 })
  const turn = fc.record({ steps, overlaps: fc.boolean(), alters: fc.boolean() })
  return fc.array(turn, { minLength: 1, maxLength: 5 })
}

const READ = `select g, 'row ' || g as text from generate_series(1, $1::int) g`
const INSERT = 'insert into written values ($1) returning n'
const series = (n: number) => Array.from({ length: n }, (_, i) => ({ g: i + 1, text: `row ${i + 1}` }))
let count = 0
let type = 'int'

/** Ends the statement with this name, or its connection, when it sleeps, once on each connection. */
async function interrupt(admin: Database, how: string, name: string, hasEnded: () => boolean) {
  const seen: number[] = []
  while (!hasEnded()) {
    const found = await admin.run(
      `select pid, pg_${how}_backend(pid) from pg_stat_activity where datname = current_database()
       and wait_event = 'PgSleep' and query like $1 and pid <> all($2::int[])`,
      [`select g /* ${name} */%`, seen],
    )
    seen.push(...found.map(({ pid }) => Number(pid)))
  }
}

/** Runs a step. Returns its rows, or the code of its error, and what they must be. */
async function runStep(database: Database, admin: Database, step: Step) {
  const { kind, rows, quick, custom, inTransaction } = step
  const n = ++count
  const options = { canBatch: quick, customPlan: custom && !quick }
  const run = async (work: (on: Connection) => Promise<Row[]>, isInside = false, limits = {}) =>
    (isInside ? database.transaction(work, limits) : work(database)).catch((error: Error) => error)
  const sleep = (on: Connection) =>
    on.run(
      `select g /* sleeper ${n} */ from generate_series(1, $1::int + 1) g where g <= $1::int or pg_sleep(4) is not null`,
      [rows],
    )
  if (kind === 'read') return [await run((on) => on.run(READ, [rows], options)), series(rows)]
  if (kind === 'write') return [await run((on) => on.run(INSERT, [n], { canBatch: quick })), [{ n }]]
  if (kind === 'first' || kind === 'second') {
    const text = `select id as of_${kind}, ${kind} from changing where id = $1`
    const outcome = await run((on) => on.run(text, [1], options))
    // Text or a number: the type of the column changes.
    const toNumber = (row: Row) => ({ ...row, [kind]: Number(row[kind]) })
    const found = Array.isArray(outcome) ? outcome.map(toNumber) : outcome
    return [found, [{ [`of_${kind}`]: 1, [kind]: kind === 'first' ? 10 : 20 }]]
  }
  if (kind === 'transaction') {
    const work = async (tx: Connection) => [...(await tx.run(READ, [rows])), ...(await tx.run(INSERT, [n]))]
    return [await run(work, true), [...series(rows), { n }]]
  }
  if (kind === 'timeout') return [await run(sleep, true, { statementTimeout: 50 }), '57014']
  if (kind === 'cancel' || kind === 'terminate') {
    let hasEnded = false
    const interrupting = interrupt(admin, kind, `sleeper ${n}`, () => hasEnded)
    const outcome = await run(sleep, inTransaction)
    hasEnded = true
    await interrupting
    return [outcome, '57014']
  }
  const [code, text] = FAILING[kind]
  const params = kind === 'divide' ? [rows] : []
  return [await run((on) => on.run(text, params, { canBatch: quick }), inTransaction), code]
}

/** Throws where the rows of a step, or its error, differ from what they must be. */
async function checkStep(database: Database, admin: Database, step: Step, canBeLost: boolean) {
  const [outcome, expected] = await runStep(database, admin, step)
  if (canBeLost && outcome instanceof DatabaseUnavailable && !outcome.code) return
  const found = outcome instanceof Error ? Reflect.get(outcome, 'code') : outcome
  if (!isDeepStrictEqual(found, expected)) throw new Error(`${JSON.stringify([step, found, expected])}`)
}

/** Runs a program, and then checks that every connection gives the right rows. */
async function runProgram(database: Database, admin: Database, program: Turn[]): Promise<void> {
  const canBeLost = program.some(({ steps }) => steps.some(({ kind }) => kind === 'terminate'))
  const all: Promise<void>[] = []
  for (const { steps, overlaps, alters } of program) {
    if (alters) {
      await Promise.allSettled(all)
      type = type === 'int' ? 'text' : 'int'
      const change = (column: string) => `alter ${column} type ${type} using ${column}::${type}`
      await admin.run(`alter table changing ${change('first')}, ${change('second')}`)
    }
    all.push(...steps.map((step) => checkStep(database, admin, step, canBeLost)))
    if (!overlaps) await Promise.allSettled(all)
  }
  for (const outcome of await Promise.allSettled(all)) if (outcome.status === 'rejected') throw outcome.reason
  const last: Step = { kind: 'read', rows: 3, quick: false, custom: false, inTransaction: false }
  await Promise.all(Array.from({ length: 4 }, () => checkStep(database, admin, last, canBeLost)))
}

async function checkPrograms(t: Test, options: [Database, Database, readonly Step['kind'][], number]) {
  const [database, admin, kinds, numRuns] = options
  type = 'int'
  for (const statement of [
    ...TABLES,
    'create table written (n int primary key)',
    'create table changing (id int, first int, second int)',
    'insert into written values (0)',
    'insert into changing values (1, 10, 20)',
  ])
    await database.run(statement)
  const property = fc.asyncProperty(turns(kinds), (program) => runProgram(database, admin, program))
  await t.resolves(fc.assert(property, { numRuns }))
}

t.test('no fault of one statement changes the rows of another', async (t) => {
  const database = SERVER ? (await open(t, WAITS)).database : await testDatabase(t)
  await checkPrograms(t, [database, database, [...GOOD, ...BAD], 100])
})

t.test('no timeout, cancellation or closed connection changes the rows of another', { skip }, async (t) => {
  const { url, database } = await open(t, WAITS)
  const admin = await openDatabase({ url, poolSize: 8, statementTimeout: 0 })
  t.teardown(() => admin.close())
  await checkPrograms(t, [database, admin, [...GOOD, ...GOOD, ...GOOD, ...BAD, ...BAD, ...SERVED], 60])
})
