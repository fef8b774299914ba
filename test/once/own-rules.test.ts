/**
 * Resources with every type of field and with rules of their own keep the tests of all resources green: only their
 * examples know the rules. In a process of its own, because it changes the environment.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { ADMIN_KEY } from '../helpers/app.ts'
import { copyRepository, getTestArguments } from './repository-copy.ts'

// The migrations of the copy have other times in each run. A server would keep a template database for each.
delete process.env.DATABASE_URL
// The tests of all resources take longer than a file usually may.
process.env.TAP_TIMEOUT = '300'
t.setTimeout(900_000)

const { copy, read, run, runNew } = copyRepository(t)

/** Every type, as a required field, with a default, or nullable. */
const FIELDS = `label:text(1..50), note:multiline?, tags:texts(0..5)=[], codes:texts(1..3), amount:decimal(10,2),
  rate:decimal(5,4)?, count:integer(0..9), price:money, is_open:boolean, day:date, opens:time, closes:time=18:00:00,
  begins_at:timestamp, size:enum(small|large)=small, contact:email, site:url?, code:uuid, room_id:ref(rooms)?`
const KINDS = [
  ...['kinds', '--fields', FIELDS, '--owner', 'user_id:reads', '--on-delete', 'cascade', '--unique', 'code'],
  ...['--states', 'draft>active>done!; active>draft', '--visible', 'status=active,done; is_open=false'],
  ...[
    '--sorts',
    'amount,rate,count,opens,begins_at',
    '--filters',
    'user_id,status,is_open,amount,opens,code',
  ],
]
const BOOKINGS = [
  ...['bookings', '--owner', 'user_id'],
  ...['--fields', 'room_id:ref(rooms)!, starts_at:timestamp, ends_at:timestamp, note:text?'],
]

/** The rules of bookings: in the definition that an end is after its start, in the database that none overlap. */
const CHECK = `
  check: ({ starts_at, ends_at }) =>
    starts_at && ends_at && ends_at <= starts_at
      ? [{ field: 'ends_at', message: 'must be after starts_at', code: 'INVALID_VALUE' }]
      : [],
  defaults: (actor)`
const CONSTRAINT = `--> statement-breakpoint
ALTER TABLE "bookings" ADD CONSTRAINT "bookings_no_overlap"
  EXCLUDE USING gist (tstzrange("starts_at", "ends_at") WITH &&);--> statement-breakpoint
ALTER TABLE "bookings" ADD CONSTRAINT "bookings_end_after_start" CHECK ("ends_at" > "starts_at");`

function edit(path: string, change: (text: string) => string): void {
  const before = readFileSync(join(copy, path), 'utf8')
  const after = change(before)
  if (after === before) throw new Error(`${path} was not changed`)
  writeFileSync(join(copy, path), after)
}

t.test('the resources, their rules and further fields are written', async (t) => {
  for (const args of [
    ['rooms', '--fields', 'name:text', '--visible', 'all', '--unique', 'name'],
    BOOKINGS,
    KINDS,
  ]) {
    const { code, stderr } = await runNew(...args)
    t.equal(code, 0, stderr)
  }
  edit('plugins/resources/bookings.ts', (text) => text.replace('\n  defaults: (actor)', CHECK))
  const migrations = 'drizzle/own-migrations'
  const migration = readdirSync(join(copy, migrations)).find((name) => name.endsWith('_bookings.sql'))
  edit(`${migrations}/${migration}`, (text) => text + CONSTRAINT)
  const { code, stdout, stderr } = await runNew('--field', 'rooms.phone:text(3..30)')
  t.equal(code, 0, stderr)
  const places = ['schemas', 'drizzle/tables', 'plugins/resources', 'src/cli/demo-data', 'test/resources']
  for (const place of places) t.match(stdout, `${place}/rooms.`)
  for (const place of places) {
    const test = place.startsWith('test') ? '.test' : ''
    t.match(read(`${place}/rooms${test}.ts`), /\bphone\b/, place)
  }
  for (const field of ['rooms.code:text(1..20)!', 'bookings.next_room_id:ref(rooms)!']) {
    const added = await runNew('--field', field)
    t.equal(added.code, 0, added.stderr)
  }
  const again = await runNew('--field', 'rooms.phone:text')
  t.equal(again.code, 2)
  t.match(again.stderr, 'rooms has a field "phone" already')
})

t.test('they compile, pass the linter, and all tests of resources pass', async (t) => {
  const tests = readdirSync(join(copy, 'test/resources')).flatMap((file) =>
    file.endsWith('.test.ts') ? [basename(file, '.test.ts')] : [],
  )
  // These compare generated files with those of the shop, or belong to the shop.
  const own = tests.filter((name) =>
    /^(rooms|bookings|kinds|access-matrix|request-examples|row-access)/.test(name),
  )
  const checks: Record<string, string[]> = {
    types: ['node_modules/typescript/bin/tsc', '--noEmit'],
    linter: [
      'node_modules/@biomejs/biome/bin/biome',
      'check',
      '--error-on-warnings',
      'src',
      'plugins',
      'schemas',
      'drizzle',
      'test/resources',
    ],
    tests: getTestArguments(own),
  }
  for (const [name, args] of Object.entries(checks)) {
    const { code, stdout, stderr } = await run(args)
    const failed = stdout.match(/^ *not ok .{0,500}/gm)?.join('\n') ?? stdout.slice(-3000)
    t.equal(code, 0, code === 0 ? name : `${name}: ${failed}${stderr.slice(-2000)}`)
  }
})

t.test('seed writes their demo rows', async (t) => {
  process.env.ADMIN_API_KEY = ADMIN_KEY
  const { stdout, stderr } = await run(['--import', 'tsx', 'src/cli.ts', 'seed', '--users', '20'])
  t.match(stdout, /20 rooms.*20 bookings|20 bookings.*20 rooms/, stderr)
})
