/** Migrations run in order, once, and atomically, also when several processes start together. */
import { readFileSync } from 'node:fs'
import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate as drizzleMigrate } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import t from 'tap'
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { countPendingMigrations, migrate } from '../../drizzle/migrate.ts'
import { createDatabase, type Owner, SERVER, testDatabase } from '../helpers/database.ts'
import { createMigrations } from '../helpers/migrations.ts'

const THREE = {
  '0000_first': 'create table steps (n int);--> statement-breakpoint\ninsert into steps values (0);\n',
  '0001_second': 'insert into steps select max(n) + 1 from steps;',
  '0002_third': 'insert into steps select max(n) + 1 from steps;--> statement-breakpoint\n\n',
}
const steps = async (db: Database) => (await db.run('select n from steps order by n')).map(({ n }) => n)

function behaves(t: Owner & Pick<typeof import('tap').t, 'test'>, open: (t: Owner) => Promise<Database>) {
  t.test('migrations are applied in order and once', async (t) => {
    const db = await open(t)
    const folder = createMigrations(t, THREE)
    t.equal(await countPendingMigrations(db, { folder }), 3)
    t.strictSame(await migrate(db, { folder }), Object.keys(THREE))
    t.strictSame(await steps(db), [0, 1, 2])
    t.equal(await countPendingMigrations(db, { folder }), 0)
    t.strictSame(await migrate(db, { folder }), [])
    t.strictSame(await steps(db), [0, 1, 2])
    const more = createMigrations(t, { ...THREE, '0003_fourth': 'insert into steps values (3)' })
    t.equal(await countPendingMigrations(db, { folder: more }), 1)
    t.strictSame(await migrate(db, { folder: more }), ['0003_fourth'])
    t.strictSame(await migrate(db, { folder }), [], 'an older build lets newer tables be')
    t.equal(await countPendingMigrations(db, { folder }), 0)
  })

  t.test('a failing migration is named and rolled back, earlier ones remain', async (t) => {
    const db = await open(t)
    const broken = {
      ...THREE,
      '0001_second': 'insert into steps values (7);--> statement-breakpoint\nselect 1 / 0;',
    }
    const folder = createMigrations(t, broken)
    await t.rejects(migrate(db, { folder }), { message: /0001_second/, cause: { code: '22012' } })
    t.strictSame(await steps(db), [0])
    t.equal(await countPendingMigrations(db, { folder }), 2)
    const mended = createMigrations(t, THREE)
    t.strictSame(await migrate(db, { folder: mended }), ['0001_second', '0002_third'])
    t.strictSame(await steps(db), [0, 1, 2])
  })

  t.test('two concurrent runs apply each migration once', async (t) => {
    const db = await open(t)
    const folder = createMigrations(t, THREE)
    const done = await Promise.all([
      migrate(db, { folder }),
      migrate(db, { folder }),
      migrate(db, { folder }),
    ])
    t.strictSame(done.flat().sort(), Object.keys(THREE))
    t.strictSame(await steps(db), [0, 1, 2])
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

t.test('testDatabase has the migrations of this build', async (t) => {
  const db = await testDatabase(t)
  t.equal(await countPendingMigrations(db), 0)
  t.strictSame(await migrate(db), [])
})

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

t.test('server', { skip }, async (t) => {
  const server = SERVER ?? ''
  const open = async (t: Owner, url?: string, statementTimeout = 5000) => {
    const db = await openDatabase({ url: url ?? (await createDatabase(t, server)), statementTimeout })
    t.teardown(() => db.close())
    return db
  }
  behaves(t, open)

  t.test('replicas that start together run the migrations in turn', async (t) => {
    const url = await createDatabase(t, server)
    const replicas = await Promise.all([1, 2, 3, 4].map(() => open(t, url, 200)))
    const slow = {
      ...THREE,
      '0001_second': `${THREE['0001_second']}--> statement-breakpoint\nselect pg_sleep(0.6);`,
    }
    const folder = createMigrations(t, slow)
    const done = await Promise.all(replicas.map((db) => migrate(db, { folder })))
    t.strictSame(done.flat().sort(), Object.keys(slow))
    for (const db of replicas) t.strictSame(await steps(db), [0, 1, 2])
  })

  t.test("Drizzle's migrator finds nothing to do afterwards, and vice versa", async (t) => {
    const folder = createMigrations(t, THREE)
    const check = async (first: 'ours' | 'drizzle') => {
      const url = await createDatabase(t, server)
      const db = await open(t, url)
      const sql = postgres(url.split('?')[0] ?? '', { max: 1, onnotice: () => undefined })
      const ours = () => migrate(db, { folder })
      const theirs = () => drizzleMigrate(drizzle(sql), { migrationsFolder: folder })
      for (const apply of first === 'ours' ? [ours, theirs] : [theirs, ours]) await apply()
      t.strictSame(await steps(db), [0, 1, 2])
      const rows = await db.run('select id, hash, created_at from drizzle.__drizzle_migrations order by id')
      await sql.end()
      return rows
    }
    t.strictSame(await check('ours'), await check('drizzle'), 'and both write the same record')
  })

  t.test('a role without the CREATE privilege can verify that all migrations are applied', async (t) => {
    const url = await createDatabase(t, server)
    const folder = createMigrations(t, THREE)
    const owner = await open(t, url)
    await migrate(owner, { folder })
    const role = `reader_${process.pid}`
    await owner.run(`create role ${role} login`)
    t.teardown(async () => {
      const again = await openDatabase({ url: server, poolSize: 1 })
      await again.run(`drop role ${role}`)
      await again.close()
    })
    await owner.run(`grant usage on schema drizzle to ${role}`)
    await owner.run(`grant select on drizzle.__drizzle_migrations to ${role}`)
    const as = new URL(url)
    as.username = role
    const db = await open(t, as.href)
    t.strictSame(await migrate(db, { folder }), [])
    await owner.run(`drop owned by ${role}`)
  })
})

t.test('every migration of this build consists of single statements', async (t) => {
  const journal = new URL('../../drizzle/migrations/meta/_journal.json', import.meta.url)
  const { entries } = JSON.parse(readFileSync(journal, 'utf8'))
  const whens: number[] = entries.map(({ when }: { when: number }) => when)
  t.strictSame(
    whens,
    [...whens].sort((a, b) => a - b),
    'in the order of their making, as drizzle applies them',
  )
})
