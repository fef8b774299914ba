/** `resource-api new --from` writes what the catalog has as code that means the same, and refuses names that code cannot have. */
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testDatabase } from '../../testing/helpers/database.ts'
import { readApplication } from '../src/new/application.ts'
import { readTable } from '../src/new/from-table.ts'
import { buildPlan } from '../src/new/plan.ts'
import { renderFiles } from '../src/new/render.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { resources, names } = await readApplication(root)

/** Creates a table, and reads it as the command does. */
async function readColumns(t: Test, columns: string) {
  const database = await testDatabase(t)
  await database.run(`create table parcels (id uuid primary key, ${columns})`)
  return readTable(database, 'parcels', resources)
}

/** Returns the files of a resource of the table, by their paths. */
function render(table: Awaited<ReturnType<typeof readTable>>): Map<string, string> {
  const { plan, problems } = buildPlan({ name: 'parcels' }, resources, table)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  return new Map(renderFiles(root, plan, names).map(({ path, text }) => [path, text]))
}

/** Returns the texts of the template literals of SQL in a file. */
const evaluateStatements = (code: string): string[] =>
  [...code.matchAll(/sql(`(?:[^`\\]|\\.)*`)/g)].map(([, literal]) => new Function(`return ${literal}`)())

t.test('backslashes, backquotes and "${" of checks and defaults stay in the code of the table', async (t) => {
  const table = await readColumns(
    t,
    `name text not null check (name !~ '\\d\`\${name}'),
     code text not null default 'a\`\${b}\\c' || floor(random())::text,
     note text not null default 'it''s \\n \${x}\`'`,
  )
  const expressions = table.checks.map(({ expression }) => expression)
  t.equal(expressions.length, 1)
  const code = render(table).get('drizzle/tables/parcels.ts') ?? ''
  const written = evaluateStatements(code)
  t.ok(written.includes(expressions[0] ?? ''), code)
  const initial = written.find((each) => each.includes('random'))
  t.match(initial, `a\`\${b}`)
  const note = table.fields.find(({ name }) => name === 'note')
  t.match(note, { isReadOnly: false, default: `it's \\n \${x}\`` })
  t.match(code, `default("it's \\\\n \${x}\`")`)
})

t.test('a check that is not valid yet has the expression of a valid one', async (t) => {
  const database = await testDatabase(t)
  await database.run('create table parcels (id uuid primary key, weight integer not null)')
  await database.run(
    'alter table parcels add constraint weight_positive check (weight > 0 and weight < 100) not valid',
  )
  const { checks, fields } = await readTable(database, 'parcels', resources)
  t.same(checks, [
    { name: 'weight_positive', expression: '((weight > 0) AND (weight < 100))', fields: ['weight'] },
  ])
  t.match(fields, [{ name: 'weight', min: 1, max: 99 }])
})

t.test('values with quotes and backslashes are those of an enum', async (t) => {
  const { fields } = await readColumns(t, `size text not null check (size in ('it''s', 'a\\b', 'c'))`)
  t.match(fields, [{ type: 'enum', values: ["it's", 'a\\b', 'c'] }])
})

t.test(
  'columns whose names cannot be those of fields are left out, or refused if they are required',
  async (t) => {
    const { fields, left } = await readColumns(t, 'name text not null, "Total weight" integer, type text')
    t.same(
      fields.map(({ name }) => name),
      ['name'],
    )
    t.match(left, [
      'the column "Total weight" is not a field name; write it in snake_case',
      'the column "type" is reserved',
    ])
    await t.rejects(readColumns(t, '"a`; b" text not null'), {
      name: 'UsageError',
      message: /^--from: the column "a`; b" is not a field name.*, and it is required$/,
    })
  },
)

t.test(
  'constraints with other characters than letters, digits and "_" in their names are refused',
  async (t) => {
    for (const constraint of [
      `constraint "it's" check (weight > 0)`,
      'constraint "weight one" unique (weight)',
    ])
      await t.rejects(readColumns(t, `weight integer not null, ${constraint}`), {
        name: 'UsageError',
        message: /^--from: the name of the constraint ".*" has other characters/,
      })
  },
)

t.test('texts without a length and times with a precision are fields', async (t) => {
  const table = await readColumns(
    t,
    `name character varying not null, code varchar(20), state varchar not null default 'open' check (state in ('open', 'paid')),
     seen_at timestamp(3) with time zone, sent_at timestamptz not null default now(), note text`,
  )
  t.same(table.left, [])
  t.match(table.fields, [
    { name: 'name', type: 'multiline', min: 0, max: 5_000 },
    { name: 'code', type: 'multiline', min: 0, max: 20 },
    { name: 'state', type: 'enum', values: ['open', 'paid'], default: 'open' },
    { name: 'seen_at', type: 'timestamp' },
    { name: 'sent_at', type: 'timestamp', isReadOnly: true },
    { name: 'note', type: 'multiline' },
  ])
  const files = render(table)
  const code = files.get('drizzle/tables/parcels.ts') ?? ''
  for (const declared of [
    'name: pg.varchar().notNull(),',
    'code: pg.varchar({ length: 20 }),',
    "state: pg.varchar().$type<'open' | 'paid'>().notNull().default('open'),",
    "seen_at: pg.timestamp({ withTimezone: true, mode: 'string', precision: 3 }),",
  ])
    t.ok(code.replace(/\s+/g, '').includes(declared.replace(/\s+/g, '')), `${declared}\n${code}`)
  t.notMatch(files.get('schemas/parcels.ts'), 'several lines', 'which nothing says of the columns')
})
