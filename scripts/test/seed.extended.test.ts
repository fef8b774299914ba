/** Demo data is what the API itself would create, and identical for the same seed. */
import { getTableName } from 'drizzle-orm'
import { test } from 'tap'
import { User } from '../../packages/accounts/src/schemas/users.ts'
import { AlreadySeededError, type SeedOptions } from '../../packages/accounts/src/seed/seed-database.ts'
import { users } from '../../packages/accounts/src/users.ts'
import type { Database } from '../../packages/database/src/client/index.ts'
import { testApp } from '../../packages/testing/helpers/app.ts'
import { testDatabase } from '../../packages/testing/helpers/database.ts'
import {
  findUnfound,
  findUnsound,
  getShare,
  readAll,
  seedRows,
} from '../../packages/testing/helpers/demo-rows.ts'
import { userProfiles } from '../../plugins/user-profiles.ts'
import { UserProfile } from '../../schemas/user-profiles.ts'

const definitions = [users, userProfiles]
const FEW_USERS = 20

const seed = (database: Database, options: Partial<SeedOptions> = {}) =>
  seedRows(database, { users: FEW_USERS, definitions, ...options })

test('every added row conforms to the API', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const seeded = await seed(database, { users: 60 })
  const users = (await readAll(admin, '/users')).filter(({ id }) => id !== adminId)
  const profiles = await readAll(admin, '/user-profiles')
  for (const [label, rows, length, schema] of [
    ['users', users, 60, User],
    ['profiles', profiles, 42, UserProfile],
  ] as const) {
    t.equal(rows.length, length, label)
    t.equal(seeded[label], length)
    t.strictSame(findUnsound(rows, schema), [])
  }

  t.ok(getShare(users, 'status', 'active') > 0.8)
  t.equal(getShare(users, 'role', 'admin'), 0)
  const isPasswordSet = 'select 1 from users where password_hash is not null and id <> $1'
  t.equal((await database.run(isPasswordSet, [adminId])).length, 0, 'no user has a password')

  const named = profiles.find(({ display_name }) => display_name)
  const searches = [
    ['/users', users[7].email, users[7].id],
    ['/users', users[9].name.toUpperCase(), users[9].id],
    ['/user-profiles', named.display_name, named.id],
  ] as const
  t.strictSame(await findUnfound(admin, searches), [])
})

const tables = definitions.map(({ table }) => getTableName(table))

/** Returns all rows of all tables, as one text. */
async function readContents(database: Database): Promise<string> {
  const rows = await Promise.all(
    tables.map((table) => database.run(`select * from ${table} t order by t::text collate "C"`)),
  )
  return JSON.stringify(rows)
}

test('the same seed creates the same data, another seed other data', async (t) => {
  const [one, two, other] = [await testDatabase(t), await testDatabase(t), await testDatabase(t)]
  await Promise.all([seed(one), seed(two), seed(other, { seed: 7 })])
  const contents = await readContents(one)
  t.ok(contents === (await readContents(two)))
  t.notOk(contents === (await readContents(other)))

  await t.rejects(seed(one, { users: 3 }), AlreadySeededError)
  t.ok(contents === (await readContents(one)), 'the same seed adds nothing')
  await seed(one, { seed: 7 })
  t.strictSame(await one.run('select count(*) from users'), [{ count: 2 * FEW_USERS }])
  t.match(await seed(other, { users: 1, seed: 1 }), { users: 1, profiles: 1 })
})

/** Reads every index and constraint from the catalog. */
const readObjects = (database: Database) =>
  database.run(`select indexdef as text from pg_indexes where schemaname = current_schema() union all
    select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = current_schema()::regnamespace order by text`)

test('bulk mode creates the same data and keeps every index and foreign key', async (t) => {
  const [usual, bulk] = [await testDatabase(t), await testDatabase(t)]
  const before = await readObjects(bulk)
  await seed(usual)
  await seed(bulk, { bulk: true })
  t.ok((await readContents(bulk)) === (await readContents(usual)))
  t.strictSame(await readObjects(bulk), before)
  await seed(bulk, { seed: 7, bulk: true })
  t.strictSame(await bulk.run('select count(*) from users'), [{ count: 2 * FEW_USERS }])
})
