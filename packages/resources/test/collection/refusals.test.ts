/** What the database refuses is never a 500: a table of what is refused, and its answers to every kind of write. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { PgSchema, pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { common, integer, text } from '../../../database/src/columns.ts'
import { newId } from '../../../database/src/lib/ids.ts'
import { exampleId, Integer, Nullable, Text } from '../../../http/src/schemas/types.ts'
import { type Client, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testEmbedded } from '../../../testing/helpers/database.ts'
import { NDJSON } from '../../../testing/helpers/imports.ts'
import { createKeyHeader, getViolations } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { operation } from '../../src/collection/operation.ts'
import type { OwnRoutes } from '../../src/collection/own-routes.ts'
import { readCatalog } from '../../src/collection/sql/table-facts.ts'
import { define } from './adopted.ts'

/** The declarations have columns alone: all else is known from the catalog. */
const parcels = pgTable('parcels', {
  ...common(),
  code: text(),
  size: integer(),
  low: integer(),
  high: integer(),
  label: text(),
  place_id: uuid(),
  parcel_id: uuid(),
  slot: integer(),
  rank: integer(),
  later_id: uuid(),
  act: text(),
  note: text(),
})
const readings = pgTable('readings', { ...common(), region: text(), place_id: uuid(), size: integer() })
const labels = pgTable('labels', { ...common(), parcel_id: uuid() })

const DATABASE = [
  'create extension if not exists btree_gist',
  'create table places (id uuid primary key, name text unique, size integer check (size > 0))',
  `insert into places values (gen_random_uuid(), 'harbor', 1)`,
  `alter table parcels alter size type smallint, alter label type varchar(5), alter note set default '', alter note set not null,
    add constraint parcels_code_check check (code <> 'wrong'), add check (low < high),
    add foreign key (place_id) references places, add foreign key (parcel_id) references parcels on delete restrict,
    add constraint parcels_slot exclude using gist (slot with =),
    add constraint parcels_rank unique (rank) deferrable initially deferred,
    add foreign key (later_id) references places deferrable initially deferred`,
  'create unique index parcels_by_code on parcels (lower(code)) where code is not null',
  'create unique index parcels_span on parcels (low, high)',
  'alter table labels add foreign key (parcel_id) references parcels',
  // The constraints of a partition have names of their own.
  `create table readings (id uuid, revision bigint default 1, created_at timestamptz(6) default now(),
    updated_at timestamptz(6) default now(), region text collate "C", place_id uuid, size bigint, primary key (id, region))
    partition by list (region)`,
  `create table readings_north partition of readings for values in ('north')`,
  `alter table readings_north add foreign key (place_id) references places, add check (size > 0)`,
  'create unique index readings_north_size on readings_north (size)',
  `create function act() returns trigger language plpgsql as $$
    begin
      case coalesce(new.act, '')
        when 'raise' then raise exception 'The secret of the trigger';
        when 'own' then raise exception 'The secret of the trigger' using errcode = 'U0001';
        when 'rule' then raise integrity_constraint_violation;
        when 'swallow' then return null;
        when 'divide' then new.size := 1 / (new.size - new.size);
        when 'rights' then raise insufficient_privilege;
        when 'taken' then insert into places values (gen_random_uuid(), 'harbor', 1);
        when 'check' then insert into places values (gen_random_uuid(), 'x', 0);
        when 'missing' then insert into labels (id, parcel_id) values (gen_random_uuid(), gen_random_uuid());
        when 'fault' then perform 1 from no_table;
        when 'strict' then raise no_data_found;
        else null;
      end case;
      return new;
    end $$`,
  'create trigger act before insert or update on parcels for each row execute function act()',
  `create function keep() returns trigger language plpgsql as $$
    begin
      if old.act = 'keep' then return null; end if;
      if old.act = 'held' then raise exception 'The secret of the trigger'; end if;
      return old;
    end $$`,
  'create trigger keep before delete on parcels for each row execute function keep()',
]

const all = { admin: true, member: true }
const access = { list: all, read: all, create: all, replace: all, update: all, remove: all }
const line = Type.Optional(Nullable(Text({ maxLength: 5000, examples: ['tea'] })))
const id = Type.Optional(Nullable(Text({ format: 'uuid', examples: [exampleId] })))
const count = Type.Optional(Nullable(Integer(-1e9, 1e9, { examples: [1] })))
const fields = {
  ...{
    code: line,
    size: count,
    low: count,
    high: count,
    label: line,
    note: Type.Optional(Nullable(Text({ default: '-', examples: ['tea'] }))),
    place_id: id,
  },
  ...{ parcel_id: id, slot: count, rank: count, later_id: id, act: line },
}
const parcelKind = { name: 'parcels', singular: 'Parcel', table: parcels, fields }
const body = Type.Object(fields, { title: 'Act' })
const describe = (operationId: string) => ({
  ...{ access: { admin: true }, operationId, summary: 'Act', description: 'Acts.', body },
})
const parcelsResource = serve(
  define(parcelKind, { access, isRestorable: true, operations: { restores: { access: { admin: true } } } }),
  {
    actions: {
      changes: {
        ...describe('changeParcel'),
        run: ({ store, current, body }) => store.update(current, body),
      },
      copies: {
        ...describe('copyParcel'),
        run: ({ store, body }) => store.insert({ id: newId(), revision: 1, ...body }),
      },
      statements: {
        ...describe('runParcel'),
        async run({ store, current, body: { act = null, code = null, size = null, place_id = null } }) {
          await store.connection.execute(
            sql`update parcels set size = ${size}::bigint, code = ${code}, place_id = ${place_id}::uuid, act = ${act}
              where id = ${current.id}`,
          )
          return current
        },
      },
    },
  },
)
const readingFields = { region: line, place_id: id, size: count }
const readingsResource = serve(
  define({ name: 'readings', singular: 'Reading', table: readings, fields: readingFields }, { access }),
)
const labelsResource = serve(
  define({ name: 'labels', singular: 'Label', table: labels, fields: { parcel_id: id } }, { access }),
)
const definitions = [parcelsResource, readingsResource, labelsResource]
const reports: OwnRoutes = {
  name: 'reports',
  description: 'Own code',
  async plugin(app) {
    app.post(
      '/reports/parcels',
      operation({
        ...{
          access: { roles: ['admin'], scope: 'reports:write' },
          operationId: 'reportParcel',
          summary: 'Act',
        },
        ...{ idempotent: true, body, response: { 201: Type.Object({}, { title: 'Done' }) } },
        async run({ body: { act, rank, code }, store }) {
          if (act)
            await store.connection.execute(
              sql`insert into parcels (id, act) values (gen_random_uuid(), ${act})`,
            )
          else await store.of(parcels).create({ rank: rank ?? null, code: code ?? null })
          return {}
        },
      }),
    )
  },
  scopes: ['reports:write'],
}

const shared = await createSharedDatabase(t)
for (const table of [parcels, labels]) await createTable(shared, table)
for (const statement of DATABASE) await shared.run(statement)
const { database, take } = overhear(shared)
const overheard = overhear(shared)
const lines: string[] = []
const logs = { write: (line: string) => void lines.push(line) }
const { admin } = await testApp(
  t,
  { LOG_LEVEL: 'warn' },
  { database, logs, resources: [...resources, ...definitions], routes: [reports] },
)

/** Returns the status, the code and the violations of an error. */
const read = (reply: Reply) => [reply.status, reply.body.error?.code, ...getViolations(reply)]
const create = async (values: object, path = '/parcels'): Promise<string> => {
  const reply = await admin.post(path, values)
  if (reply.status !== 201) throw new Error(`${reply.text} ${lines.join()}`)
  return reply.body.data.id
}

const CONFLICT = 'RESOURCE_CONFLICT'
const INVALID = 'VALIDATION_ERROR'
const FAULT = 'INTERNAL_SERVER_ERROR'
/** What is refused, and its answer: as PostgreSQL names it, the body, the status, the code, the violations. */
const REFUSALS: Record<string, [body: object, status: number, code: string, ...violations: string[]]> = {
  '23505, a partial index over an expression that only the database has': [
    { code: 'TEA' },
    ...([409, CONFLICT, 'code ALREADY_EXISTS'] as const),
  ],
  '23505, an index over several columns that only the database has': [
    { low: 1, high: 2 },
    ...([409, CONFLICT, 'high ALREADY_EXISTS', 'low ALREADY_EXISTS'] as const),
  ],
  '23P01, an exclusion constraint': [{ slot: 1 }, 409, CONFLICT],
  '23503, a foreign key that only the database has': [
    { place_id: UNKNOWN_ID },
    ...([422, INVALID, 'place_id NOT_FOUND'] as const),
  ],
  '23503, of the same table': [{ parcel_id: UNKNOWN_ID }, 422, INVALID, 'parcel_id NOT_FOUND'],
  '23514, a check of one column': [{ code: 'wrong' }, 422, INVALID, 'code INVALID_VALUE'],
  '23514, a check of several columns': [
    { low: 5, high: 4 },
    ...([422, INVALID, 'high INVALID_VALUE', 'low INVALID_VALUE'] as const),
  ],
  '23502, not null': [{ note: null }, 422, INVALID, 'note REQUIRED'],
  '22001, too long': [{ label: 'longer' }, 422, INVALID],
  '22003, out of range': [{ size: 40_000 }, 422, INVALID],
  '22012, another of class 22': [{ act: 'divide', size: 1 }, 422, INVALID],
  '54000, too long for an index': [{ code: 'LONG' }, 422, INVALID],
  P0001: [{ act: 'raise' }, 409, CONFLICT],
  'a code of their own': [{ act: 'own' }, 409, CONFLICT],
  '23000, raised by name': [{ act: 'rule' }, 409, CONFLICT],
  'no row: a trigger swallows the write': [{ act: 'swallow' }, 409, CONFLICT],
  '42501, a right': [{ act: 'rights' }, 403, 'FORBIDDEN'],
  'a unique index of the table of a trigger': [{ act: 'taken' }, 409, CONFLICT],
  'a check of the table of a trigger': [{ act: 'check' }, 422, INVALID],
  'a foreign key of the table of a trigger': [{ act: 'missing' }, 422, INVALID],
  'a fault within a trigger': [{ act: 'fault' }, 500, FAULT],
  'another fault within a trigger': [{ act: 'strict' }, 500, FAULT],
}

/** A text that no compression makes short enough for an index. */
const LONG = Array.from({ length: 4900 }, () => String.fromCharCode(97 + Math.random() * 26)).join('')

t.test('each refusal has its answer, from every kind of write', async (t) => {
  await create({ code: 'tea', slot: 1, low: 1, high: 2 })
  for (const [name, [given, status, code, ...violations]] of Object.entries(REFUSALS)) {
    const sent = 'code' in given && given.code === 'LONG' ? { code: LONG } : given
    await t.test(name, async (t) => {
      const own = await create({})
      const one = `/parcels/${own}`
      const single: Record<string, () => Promise<Reply>> = {
        create: () => admin.post('/parcels', sent),
        'with a key': () => admin.post('/parcels', sent, createKeyHeader()),
        'dry run': () => admin.post('/parcels?dry_run=true', sent),
        update: () => admin.patch(one, sent),
        replace: () => admin.put(one, sent),
        'dry run of a change': () => admin.patch(`${one}?dry_run=true`, sent),
        action: () => admin.post(`${one}/changes`, sent),
        'store.insert': () => admin.post(`${one}/copies`, sent),
      }
      for (const [kind, send] of Object.entries(single)) {
        t.same(read(await send()), [status, code, ...violations], kind)
      }

      for (const [kind, operations] of Object.entries({
        create: [{ method: 'POST', path: '/parcels', body: sent }],
        update: [{ method: 'PATCH', path: one, body: sent }],
      })) {
        const first = { method: 'POST', path: '/parcels', body: {} }
        for (const path of ['/batches', '/batches?dry_run=true']) {
          const reply = await admin.post(path, { operations: [first, ...operations] })
          const expected = violations.map((each) => `operations.1.body.${each}`)
          const whole = status === 403 ? 'FORBIDDEN' : 'INVALID_VALUE'
          const listed = expected.length > 0 ? expected : status === 500 ? [] : [`operations.1 ${whole}`]
          t.same(read(reply), [status, code, ...listed], `batch: ${kind}`)
        }
      }

      for (const path of ['/parcels', '/parcels?dry_run=true']) {
        const rows = `{}\n${JSON.stringify(sent)}\n{}\n`
        const reply = await admin.call('POST', path, { headers: NDJSON, body: rows })
        const expected = violations.map((each) => `rows.2.${each}`)
        const listed =
          expected.length > 0 ? expected : [`rows.2 ${status === 403 ? 'FORBIDDEN' : 'INVALID_VALUE'}`]
        t.same(read(reply), status === 500 ? [500, code] : [422, INVALID, ...listed], 'import')
        if (status !== 500) t.match(reply.text, '(line 2)')
      }
      const after = await admin.get(one)
      t.equal(after.body.data.revision, undefined)
      t.equal(after.body.data.updated_at, after.body.data.created_at, 'nothing was written')
    })
  }
})

t.test('the reason of a trigger, a right and a value is in the log alone', async (t) => {
  const logged = async (send: () => Promise<Reply>) => {
    lines.length = 0
    const { text } = await send()
    t.notMatch(text, /secret|trigger|privilege|smallint|no_table/i)
    return lines.map((line) => JSON.parse(line))
  }
  const found = (level: string, key: string, message: RegExp | StringConstructor = String) => [
    { level, [key]: { cause: { message, routine: String } } },
  ]
  const sends: [object, ReturnType<typeof found>][] = [
    [{ act: 'raise' }, found('warn', 'cause', /^The secret of the trigger$/)],
    [{ act: 'rights' }, found('warn', 'cause', /insufficient_privilege/)],
    [{ size: 40_000 }, found('warn', 'cause')],
    [{ act: 'fault' }, found('error', 'err', /no_table/)],
  ]
  for (const [values, expected] of sends) {
    t.match(await logged(() => admin.post('/parcels', values)), expected)
    const body = JSON.stringify(values)
    t.match(await logged(() => admin.call('POST', '/parcels', { headers: NDJSON, body })), expected, 'import')
  }
  t.same(await logged(() => admin.post('/parcels', { code: 'wrong' })), [], 'what clients cause')
})

t.test('with `raises`, the message of the trigger is sent', async (t) => {
  const raising = serve(define(parcelKind, { access, raises: true }))
  const { admin } = await testApp(t, {}, { database: shared, resources: [...resources, raising] })
  for (const act of ['raise', 'own']) {
    const { status, body } = await admin.post('/parcels', { act })
    t.match([status, body.error], [409, { code: CONFLICT, message: 'The secret of the trigger' }])
  }
  const operations = [{ method: 'POST', path: '/parcels', body: { act: 'raise' } }]
  t.match((await admin.post('/batches', { operations })).body.error.details, [
    { field: 'operations.0', message: 'The secret of the trigger' },
  ])
})

t.test('a row that others refer to is 409, by each kind of foreign key', async (t) => {
  const referred = await create({})
  const message = (name: string) => ({
    error: { code: CONFLICT, message: `Resources in ${name} still refer to this one` },
  })
  const check = async (name: string) => {
    for (const query of ['', '?dry_run=true']) {
      const reply = await admin.delete(`/parcels/${referred}${query}`)
      t.match([reply.status, reply.body], [409, message(name)])
    }
    const operations = [{ method: 'DELETE', path: `/parcels/${referred}` }]
    t.same(read(await admin.post('/batches', { operations })), [409, CONFLICT, 'operations.0 INVALID_VALUE'])
  }
  const child = await create({ parcel_id: referred })
  await check('parcels')
  t.equal((await admin.delete(`/parcels/${child}`)).status, 204)
  const label = await create({ parcel_id: referred }, '/labels')
  await check('labels')
  t.equal((await admin.delete(`/labels/${label}`)).status, 204)
  t.equal((await admin.delete(`/parcels/${referred}`)).status, 204)
})

t.test('a trigger that keeps a row is 409, and not 204', async (t) => {
  for (const act of ['keep', 'held']) {
    const kept = await create({ act })
    for (const query of ['', '?dry_run=true'])
      t.same(read(await admin.delete(`/parcels/${kept}${query}`)), [409, CONFLICT])
    t.equal((await admin.get(`/parcels/${kept}`)).status, 200)
  }
})

t.test('deferred constraints are checked before the commit, and in dry runs', async (t) => {
  const own = await create({ rank: 1 })
  const other = await create({ rank: 2 })
  const taken = [409, CONFLICT, 'rank', 'ALREADY_EXISTS'] as const
  const missing = [422, INVALID, 'later_id', 'NOT_FOUND'] as const
  for (const [sent, [status, code, field, violation]] of [
    [{ rank: 1 }, taken],
    [{ later_id: UNKNOWN_ID }, missing],
  ] as const) {
    const expected = [status, code, `${field} ${violation}`]
    for (const query of ['', '?dry_run=true']) {
      t.same(read(await admin.post(`/parcels${query}`, sent)), expected, `create${query}`)
      t.same(read(await admin.patch(`/parcels/${other}${query}`, sent)), expected, `update${query}`)
      t.same(read(await admin.post(`/parcels/${other}/changes${query}`, sent)), expected, `action${query}`)
      const operations = [{ method: 'POST', path: '/parcels', body: sent }]
      const batch = await admin.post(`/batches${query}`, { operations })
      t.same(read(batch), [status, code, `operations ${violation}`], `batch${query}`)
      t.match(batch.body.error.details[0].message, /^(rank|later_id) /)
      const body = JSON.stringify(sent)
      const imported = await admin.call('POST', `/parcels${query}`, { headers: NDJSON, body })
      t.same(read(imported), [status, code, `rows ${violation}`], `import${query}`)
    }
    const key = { 'idempotency-key': `deferred-${Object.keys(sent)}` }
    for (const time of ['first', 'again'])
      t.same(read(await admin.post('/parcels', sent, key)), expected, time)
  }
  // What is right at the end is accepted.
  const operations = [
    { method: 'PATCH', path: `/parcels/${own}`, body: { rank: 2 } },
    { method: 'PATCH', path: `/parcels/${other}`, body: { rank: 1 } },
  ]
  for (const query of ['?dry_run=true', ''])
    t.equal((await admin.post(`/batches${query}`, { operations })).status, 200, query)
  t.equal((await admin.get(`/parcels/${own}`)).body.data.rank, 2)
})

t.test('the statements of own code have the same answers', async (t) => {
  const one = `/parcels/${await create({})}/statements`
  t.same(read(await admin.post(one, { act: 'raise' })), [409, CONFLICT])
  t.same(read(await admin.post(one, { size: 40_000 })), [422, INVALID])
  t.same(read(await admin.post(one, { place_id: UNKNOWN_ID })), [422, INVALID, 'place_id NOT_FOUND'])
  t.same(read(await admin.post(one, { act: 'fault' })), [500, FAULT])
  const report = (sent: object) => admin.post('/reports/parcels', sent)
  t.same(read(await report({ act: 'raise' })), [409, CONFLICT])
  t.same(read(await report({ act: 'fault' })), [500, FAULT])
  await create({ code: 'report', rank: 9 })
  t.same(read(await report({ code: 'report' })), [409, CONFLICT, 'parcels.code ALREADY_EXISTS'])
  t.same(read(await report({ rank: 9 })), [409, CONFLICT], 'at the commit')
})

t.test('a restore is refused as a creation is', async (t) => {
  const [place = { id: '' }] = await shared.run(
    'insert into places values (gen_random_uuid(), null, 1) returning id',
  )
  const restored = await create({ code: 'restored', place_id: place.id })
  t.equal((await admin.delete(`/parcels/${restored}`)).status, 204)
  await shared.run('delete from places where name is null')
  const restore = () => admin.post(`/parcels/${restored}/restores`, undefined)
  t.same(read(await restore()), [422, INVALID, 'place_id NOT_FOUND'])
  await shared.run('insert into places values ($1, null, 1)', [String(place.id)])
  const taker = await create({ code: 'Restored' })
  t.same(read(await restore()), [409, CONFLICT, 'code ALREADY_EXISTS'])
  t.equal((await admin.delete(`/parcels/${taker}`)).status, 204)
  t.equal((await restore()).status, 201)
  t.same(read(await restore()), [409, CONFLICT], 'it exists')
})

t.test('partitions have constraints of their own', async (t) => {
  const post = async (sent: object) => read(await admin.post('/readings', sent))
  await create({ region: 'north', size: 3 }, '/readings')
  t.same(await post({ region: 'south' }), [422, INVALID], 'no partition')
  t.same(await post({ region: 'north', place_id: UNKNOWN_ID }), [422, INVALID, 'place_id NOT_FOUND'])
  t.same(await post({ region: 'north', size: 0 }), [422, INVALID, 'size INVALID_VALUE'])
  t.same(await post({ region: 'north', size: 3 }), [409, CONFLICT, 'size ALREADY_EXISTS'])
})

t.test('a policy that refuses is 403, also one that hides the row from DELETE', async (t) => {
  const embedded = await testEmbedded(t)
  for (const table of [parcels, labels]) await createTable(embedded, table)
  for (const statement of [
    'create role weak',
    'grant all on all tables in schema public to weak',
    'grant all on all sequences in schema public to weak',
    'alter table parcels enable row level security',
    `create policy seen on parcels for select using (true)`,
    `create policy made on parcels for insert with check (code is distinct from 'wrong')`,
    `create policy changed on parcels for update using (true) with check (code is distinct from 'wrong')`,
    `create policy removed on parcels for delete using (code is distinct from 'kept')`,
    'revoke insert on labels from weak',
    'set role weak',
  ])
    await embedded.run(statement)
  const { admin } = await testApp(t, {}, { database: embedded, resources: [...resources, ...definitions] })
  const post = async (sent: object, path = '/parcels') => admin.post(path, sent)
  t.same(read(await post({ code: 'wrong' })), [403, 'FORBIDDEN'])
  const kept = await post({ code: 'kept' })
  t.equal(kept.status, 201, kept.text)
  const one = `/parcels/${kept.body.data.id}`
  t.same(read(await admin.patch(one, { code: 'wrong' })), [403, 'FORBIDDEN'])
  t.same(read(await admin.delete(one)), [403, 'FORBIDDEN'])
  t.equal((await admin.get(one)).status, 200)
  t.equal((await admin.patch(one, { code: 'free' })).status, 200)
  t.equal((await admin.delete(one)).status, 204)
  t.same(read(await post({}, '/labels')), [403, 'FORBIDDEN'], 'a right')
})

t.test('the catalog is read by the schema of the table, with names as they are', async (t) => {
  const name = 'Tiny "Users"'
  const ours = pgTable(name, { id: uuid() })
  const theirs = new PgSchema('Other, Schema').table(name, { id: uuid() })
  const none = pgTable('no_table', { id: uuid() })
  for (const statement of [
    'create schema "Other, Schema"',
    'create table "Tiny ""Users""" (id uuid constraint ours primary key)',
    `create table "Other, Schema"."Tiny ""Users""" (id uuid constraint theirs primary key, "a,b" text, c text, d text,
      constraint "with ""more""" unique (c, "a,b") include (d) deferrable)`,
  ])
    await shared.run(statement)
  const catalog = await readCatalog(shared, [ours, theirs, none])
  t.equal(catalog.size, 2)
  const key = {
    kind: 'unique',
    table: name,
    columns: ['id'],
    isPartial: false,
    isKey: true,
    isDeferrable: false,
  }
  t.match(catalog.get(ours), [{ ...key, name: 'ours' }])
  t.match(catalog.get(theirs), [
    { ...key, name: 'theirs', schema: 'Other, Schema' },
    { ...key, name: 'with "more"', columns: ['c', 'a,b'], isDeferrable: true },
  ])
})

t.test('what is not refused costs no statement', async (t) => {
  const count = async (send: (client: Client) => Promise<Reply>, path: string) => {
    take()
    const { status, text } = await send(admin)
    t.ok(status < 300, text)
    return take().statements.filter(
      (statement) => statement.includes(path) || /^(begin|commit|set)/.test(statement),
    )
  }
  const created = await count((by) => by.post('/labels', {}), 'labels')
  t.match(created, [/^with changed as \(insert/])
  t.equal(created.length, 1)
  const dry = await count((by) => by.post('/parcels?dry_run=true', {}), '"parcels"')
  t.equal(
    dry.filter((each) => each.startsWith('set constraints')).length,
    1,
    'a dry run where constraints are deferred',
  )
  const real = await count((by) => by.post('/parcels', {}), '"parcels"')
  t.equal(real.filter((each) => each.startsWith('set constraints')).length, 0)
  const shop = await testApp(t, {}, { database: overheard.database, resources })
  overheard.take()
  t.equal(
    (await shop.admin.post('/products?dry_run=true', { sku: 'a', name: 'A', price_amount: 1 })).status,
    201,
  )
  t.notMatch(overheard.take().statements.join(';'), 'set constraints', 'none is deferred')
})
