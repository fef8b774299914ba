/** Migrations run in order, once, and atomically, also when several processes start together. */
import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate as drizzleMigrate } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import t from 'tap'
import {
  createDatabase,
  createMigrations,
  createRole,
  FIRST_TIME,
  type Owner,
  SERVER,
} from '../../testing/helpers/database.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import { type Database, openDatabase } from '../src/client/index.ts'
import { countPendingMigrations, migrate } from '../src/migrate.ts'

const THREE = {
  '0000_first': 'create table steps (n int);--> statement-breakpoint\ninsert into steps values (0);\n',
  '0001_second': 'insert into steps select max(n) + 1 from steps;',
  '0002_third': 'insert into steps select max(n) + 1 from steps;--> statement-breakpoint\n\n',
}
const INDEXED = {
  '0000_table':
    'create extension if not exists pg_trgm--> statement-breakpoint\ncreate table notes (body text)',
  '0001_indexes': `-- by hand\nCREATE INDEX CONCURRENTLY "notes_body" ON "notes" USING gin ("body" gin_trgm_ops);--> statement-breakpoint
    create unique index concurrently if not exists notes_unique on notes (body)`,
}
const VALID_INDEXES = [
  { name: 'notes_body', is_valid: true },
  { name: 'notes_unique', is_valid: true },
]
const readIndexes = (db: Database) =>
  db.run(`select c.relname as name, i.indisvalid as is_valid from pg_index i
    join pg_class c on c.oid = i.indexrelid where i.indrelid = to_regclass('notes') order by 1`)
const steps = async (db: Database) => (await db.run('select n from steps order by n')).map(({ n }) => n)

function behaves(t: Owner & Pick<typeof import('tap').t, 'test'>, open: (t: Owner) => Promise<Database>) {
  t.test('migrations are applied in order and once', async (t) => {
    const db = await open(t)
    const folder = createMigrations(t, THREE)
    t.equal(await countPendingMigrations(db, { folders: [folder] }), 3)
    t.strictSame(await migrate(db, { folders: [folder] }), Object.keys(THREE))
    t.strictSame(await steps(db), [0, 1, 2])
    t.equal(await countPendingMigrations(db, { folders: [folder] }), 0)
    t.strictSame(await migrate(db, { folders: [folder] }), [])
    t.strictSame(await steps(db), [0, 1, 2])
    const more = createMigrations(t, { ...THREE, '0003_fourth': 'insert into steps values (3)' })
    t.equal(await countPendingMigrations(db, { folders: [more] }), 1)
    t.strictSame(await migrate(db, { folders: [more] }), ['0003_fourth'])
    t.strictSame(await migrate(db, { folders: [folder] }), [], 'an older release ignores newer migrations')
    t.equal(await countPendingMigrations(db, { folders: [folder] }), 0)
  })

  t.test('a failing migration is named and rolled back, earlier ones remain', async (t) => {
    const db = await open(t)
    const failing = 'insert into steps values (7);--> statement-breakpoint\nselect 1 / 0;'
    const folder = createMigrations(t, { ...THREE, '0001_second': failing })
    // A test runner prints the message of an error, and not its cause.
    await t.rejects(migrate(db, { folders: [folder] }), {
      message: /^Migration 0001_second failed and was rolled back: division by zero; /,
      cause: { code: '22012' },
    })
    t.strictSame(await steps(db), [0])
    t.equal(await countPendingMigrations(db, { folders: [folder] }), 2)
    const corrected = createMigrations(t, THREE)
    t.strictSame(await migrate(db, { folders: [corrected] }), ['0001_second', '0002_third'])
    t.strictSame(await steps(db), [0, 1, 2])
  })

  t.test('indexes are created concurrently, by a migration that has no other statements', async (t) => {
    const db = await open(t)
    const folder = createMigrations(t, INDEXED)
    t.strictSame(await migrate(db, { folders: [folder] }), Object.keys(INDEXED))
    t.strictSame(await readIndexes(db), VALID_INDEXES)
    t.strictSame(await migrate(db, { folders: [folder] }), [])
    const mixed = createMigrations(t, {
      '0000_mixed': Object.values(INDEXED).join('--> statement-breakpoint\n'),
    })
    await t.rejects(
      migrate(db, { folders: [mixed] }),
      /0000_mixed has other statements besides "create index/,
    )
  })
}

t.test('embedded', async (t) => {
  const shared = openDatabase({})
  t.teardown(async () => (await shared).close())
  behaves(t, async () => {
    const db = await shared
    for (const schema of ['public', 'drizzle']) await db.run(`drop schema if exists ${schema} cascade`)
    await db.run('create schema public')
    return db
  })
})

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

t.test('server', { skip }, async (t) => {
  const server = SERVER ?? ''
  const open = async (t: Owner, options: Parameters<typeof openDatabase>[0] = {}) => {
    const db = await openDatabase({ url: await createDatabase(t, server), ...options })
    t.teardown(() => db.close())
    return db
  }
  behaves(t, (t) => open(t))

  const slow = {
    ...THREE,
    '0001_second': `${THREE['0001_second']}--> statement-breakpoint\nselect pg_sleep(0.6);`,
  }
  for (const [name, schema, migrations] of [
    ['run the migrations in turn', 'public', slow],
    ['create an index concurrently', 'public', INDEXED],
    ['create an index concurrently in a schema', 'tenant', INDEXED],
  ] as const) {
    t.test(`replicas that start together ${name}`, async (t) => {
      const url = await createDatabase(t, server)
      const folder = createMigrations(t, migrations)
      const replicas = await Promise.all(
        [1, 2, 3, 4].map(() => open(t, { url, schema, statementTimeout: 200 })),
      )
      const done = await Promise.all(replicas.map((db) => migrate(db, { folders: [folder] })))
      t.strictSame(done.flat().sort(), Object.keys(migrations))
      for (const db of replicas) {
        if (migrations === slow) t.strictSame(await steps(db), [0, 1, 2])
        else t.strictSame(await readIndexes(db), VALID_INDEXES)
      }
    })
  }

  t.test('an index that could not be completed is removed and created again', async (t) => {
    const db = await open(t)
    const folder = createMigrations(t, INDEXED)
    const table = createMigrations(t, { '0000_table': INDEXED['0000_table'] })
    await migrate(db, { folders: [table] })
    await db.run("insert into notes values ('twice'), ('twice')")
    await t.rejects(migrate(db, { folders: [folder] }), {
      message: /^Migration 0001_indexes failed: could not create unique index/,
      cause: { code: '23505' },
    })
    t.strictSame(await readIndexes(db), [
      { name: 'notes_body', is_valid: true },
      { name: 'notes_unique', is_valid: false },
    ])
    await db.run('delete from notes')
    t.strictSame(await migrate(db, { folders: [folder] }), ['0001_indexes'])
    t.strictSame(await readIndexes(db), VALID_INDEXES)
  })

  t.test('requests behind a migration that waits for a lock do not wait for its holder', async (t) => {
    const db = await open(t)
    await migrate(db, { folders: [createMigrations(t, THREE)] })
    const folder = createMigrations(t, {
      ...THREE,
      '0003_column': 'alter table steps add column note text',
      '0004_index': 'create index concurrently steps_note on steps (note)',
    })
    const isWaiting = async () => {
      const locks = await db.run(
        "select 1 from pg_locks where relation = 'steps'::regclass and not granted and mode = 'AccessExclusiveLock'",
      )
      return locks.length > 0
    }
    const { applied } = await db.transaction(async (tx) => {
      await tx.run('select n from steps')
      const applied = migrate(db, { folders: [folder] })
      // It gives up the lock that others wait behind, and tries again.
      for (const expected of [true, false, true])
        await waitUntil(async () => (await isWaiting()) === expected)
      t.strictSame(await steps(db), [0, 1, 2], 'a read succeeds before the holder of the lock ends')
      t.strictSame(await db.run('update steps set n = 3 where n = 2 returning n'), [{ n: 3 }], 'and a write')
      return { applied }
    })
    t.strictSame(await applied, ['0003_column', '0004_index'])
  })

  t.test('a migration that does not get its lock fails after MIGRATION_TIMEOUT', async (t) => {
    const db = await open(t)
    await migrate(db, { folders: [createMigrations(t, THREE)] })
    const folder = createMigrations(t, { ...THREE, '0003_column': 'alter table steps add column note text' })
    const cause = {
      message: /^A transaction holds a lock on one of its tables for longer than MIGRATION_TIMEOUT/,
    }
    const message = /^Another process applies migrations for longer than MIGRATION_TIMEOUT \(0.001 s\)/
    for (const [lock, expected] of [
      ['select n from steps', { message: /^Migration 0003_column failed and was rolled back/, cause }],
      ['select pg_advisory_xact_lock(1835624306)', { message }],
    ] as const)
      await db.transaction(async (tx) => {
        await tx.run(lock)
        await t.rejects(migrate(db, { folders: [folder], lockWaitMs: 1 }), expected)
      })
    t.strictSame(await migrate(db, { folders: [folder] }), ['0003_column'])
  })

  t.test("Drizzle's migrator finds nothing to do afterwards, and vice versa", async (t) => {
    const folder = createMigrations(t, THREE)
    const records = []
    for (const isFirst of [true, false]) {
      const url = await createDatabase(t, server)
      const db = await open(t, { url })
      const sql = postgres(url.split('?')[0] ?? '', { max: 1, onnotice: () => undefined })
      if (isFirst) await migrate(db, { folders: [folder] })
      await drizzleMigrate(drizzle(sql), { migrationsFolder: folder })
      await migrate(db, { folders: [folder] })
      t.strictSame(await steps(db), [0, 1, 2])
      records.push(await db.run('select id, hash, created_at from drizzle.__drizzle_migrations order by id'))
      await sql.end()
    }
    t.strictSame(records[0], records[1], 'both write the same record')
  })

  t.test('the migrations of two folders are applied in the order of their times', async (t) => {
    const db = await open(t)
    const insert = (n: number) => `insert into steps values (${n})`
    const product = createMigrations(t, { product_1: 'create table steps (n int)', product_2: insert(2) })
    const own = createMigrations(t, { own_1: insert(1) }, FIRST_TIME + 5)
    const folders = [own, product]
    t.strictSame(await migrate(db, { folders }), ['product_1', 'own_1', 'product_2'])

    const older = createMigrations(t, { own_0: insert(0) }, FIRST_TIME - 1)
    t.strictSame(await migrate(db, { folders: [product, older] }), ['own_0'], 'also after newer ones')
  })

  t.test('a role without the CREATE privilege can verify that all migrations are applied', async (t) => {
    const url = await createDatabase(t, server)
    const folder = createMigrations(t, THREE)
    const owner = await open(t, { url })
    await migrate(owner, { folders: [folder] })
    const rights = ['usage on schema drizzle', 'select on all tables in schema drizzle']
    const username = await createRole(t, owner, ...rights)
    const db = await open(t, { url: Object.assign(new URL(url), { username }).href })
    t.strictSame(await migrate(db, { folders: [folder] }), [])
  })
})
