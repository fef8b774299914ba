/** A table that differs from the code stops the start with one message that lists all differences. */
import {
  boolean,
  char,
  date,
  getTableConfig,
  jsonb,
  numeric,
  pgTable,
  text as plainText,
  serial,
  time,
  timestamp,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import t from 'tap'
import { buildApp } from '../../../src/app.ts'
import { readConfig } from '../../http/src/config/read-config.ts'
import {
  createRole,
  getSchema,
  openDatabase,
  SERVER,
  testDatabase,
  testDatabaseUrl,
  testFolder,
  withSchema,
} from '../../testing/helpers/database.ts'
import { DEFAULT_SCHEMA } from '../src/client/schema.ts'
import { integer, moment, text } from '../src/columns.ts'
import { inspectSchema, toCatalogType } from '../src/schema-check.ts'
import { registerTables } from '../src/table-list.ts'

const DAMAGE = [
  'alter table products drop column stock',
  'alter table products alter price_amount type int4',
  'alter table orders alter note type text collate "default"',
  'alter table orders alter number drop default',
  'drop sequence order_numbers',
  'drop table sign_in_addresses',
]

const ERRORS = [
  'The column orders.note has the type text instead of text COLLATE "C"',
  'The column products.price_amount has the type integer instead of bigint',
  'The table products lacks the column stock (bigint)',
  'The table sign_in_addresses is missing',
  'The sequence order_numbers is missing',
]

const database = await testDatabase(t)

t.test('tables as the migrations create them have no differences', async (t) => {
  t.strictSame(await inspectSchema(database), { errors: [], warnings: [] })

  await t.test('those of a later release neither', async (t) => {
    await database.run('alter table products add column color text')
    await database.run('create table later (id uuid primary key)')
    t.strictSame(await inspectSchema(database), { errors: [], warnings: [] })
  })

  await t.test('a missing index and another nullability are warnings', async (t) => {
    await database.run('drop index users_email_unique')
    await database.run('alter table order_products drop constraint order_products_order_id_product_id_pk')
    await database.run('alter table products alter name drop not null, alter description set not null')
    const { errors, warnings } = await inspectSchema(database)
    t.strictSame(errors, [])
    t.strictSame(warnings.sort(), [
      'The column products.description is declared NOT NULL',
      'The column products.name is not declared NOT NULL',
      'The table order_products lacks the index order_products_order_id_product_id_pk',
      'The table users lacks the index users_email_unique',
    ])
  })
})

t.test('every type that the generator writes, and others, are those that the database has', async (t) => {
  const kinds = pgTable('kinds', {
    line: text(),
    count: integer(),
    at: moment(),
    price: numeric({ precision: 10, scale: 2 }),
    whole: numeric({ precision: 10 }),
    any: numeric(),
    opens: time(),
    closes: time({ precision: 3, withTimezone: true }),
    local: timestamp({ precision: 3 }),
    day: date(),
    is_open: boolean(),
    tags: jsonb(),
    code: uuid(),
    name: varchar({ length: 20 }),
    names: varchar({ length: 20 }).array(),
    letter: char(),
    digits: char({ length: 2 }),
    list: plainText().array(),
    number: serial(),
  })
  const { columns } = getTableConfig(kinds)
  await database.run(
    `create table kinds (${columns.map((column) => `"${column.name}" ${column.getSQLType()}`).join()})`,
  )
  const rows = await database.run(
    "select attname, format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 'kinds'::regclass and attnum > 0",
  )
  const types = Object.fromEntries(rows.map(({ attname, type }) => [attname, type]))
  for (const column of columns)
    t.equal(toCatalogType(column.getSQLType()).replace(' COLLATE "C"', ''), types[column.name], column.name)
})

t.test('a start fails with all differences and what to do, and logs warnings', async (t) => {
  const { url, dataDir = testFolder(t) } = await testDatabaseUrl(t)
  const opened = await openDatabase(url === undefined ? { dataDir } : { url })
  await opened.run('drop index users_name')
  await opened.close()
  const lines: string[] = []
  const settings = {
    ...{ NODE_ENV: 'test', LOG_LEVEL: 'warn', DATA_DIR: dataDir, ...(url && { DATABASE_URL: url }) },
    ADMIN_API_KEY: 'a-key-of-thirty-two-characters-or-more',
  }
  const start = () =>
    buildApp(readConfig(withSchema(settings)), {
      logs: { write: (line) => lines.push(JSON.parse(line).msg) },
    })

  const app = await start()
  t.strictSame(lines, ['The table users lacks the index users_name'])
  for (const statement of DAMAGE) await app.database.run(statement)
  await app.close()
  const error = await start().catch((reason: Error) => reason)
  const message = error instanceof Error ? error.message : ''
  t.match(message, /^The database differs from this release:\n/)
  for (const line of ERRORS) t.match(message, `\n  ${line}\n`)
  t.match(
    message,
    /npm run migrations -- --name .* as the files in drizzle\/migrations and in the folder migrations of the package database do, or restore a backup/,
  )
})

t.test('a table of the application with the name of one of the packages stops the start', async (t) => {
  const declarations = [pgTable('events', { id: uuid().primaryKey() })]
  t.throws(() => registerTables({ declarations, migrations: 'none', url: import.meta.url }), {
    message: 'The packages have a table "events": give that of the application another name',
  })
})

const skip =
  SERVER && getSchema(undefined) === DEFAULT_SCHEMA
    ? false
    : 'needs a PostgreSQL server, and the default schema'

t.test('tables are found by the search path, by a role that owns nothing', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const owner = await openDatabase({ url })
  t.teardown(() => owner.close())
  await owner.run('alter schema public rename to app')
  await owner.run('create schema public')
  const role = await createRole(t, owner)
  const inspect = async () => {
    const database = await openDatabase({ url: Object.assign(new URL(url), { username: role }).href })
    const { errors } = await inspectSchema(database)
    await database.close()
    return errors
  }
  t.ok((await inspect()).includes('The table users is missing'), 'no schema of the search path has it')
  await owner.run(`alter role ${role} set search_path = app`)
  await owner.run(`grant usage on schema app to ${role}`)
  t.strictSame(await inspect(), [])
})
