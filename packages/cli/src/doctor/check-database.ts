/** The checks of the database: rights, extension, migrations, tables, clock. */

import { type Database, identity } from '@resource-api/database'
import { describeReference, readOuterReferences } from '@resource-api/database/backup'
import {
  countPendingMigrations,
  DEFAULT_SCHEMA,
  getRecordTable,
  inspectSchema,
  listRecordTables,
  SCHEMA_ADVICE,
} from '@resource-api/database/migrations'
import { listTableNames } from '@resource-api/database/tables'
import type { Config } from '@resource-api/http/config'
import { sql } from 'drizzle-orm'
import { attempt, type Finding, fail, ok, warn } from './finding.ts'

const CLOCK_WARNING_MS = 5_000
const CLOCK_FAILURE_MS = 30_000

type Rights = {
  role: string
  is_standby: boolean
  is_read_only: boolean
  /** Whether migrations can create the trusted extension, and schemas. */
  can_create_extension: boolean
  /** Whether migrations can create the tables, and their schema if it does not exist. */
  can_create_tables: boolean
  /** Whether the role may use the schema; null if it does not exist. */
  may_use: boolean | null
  /** What the role may not do, such as `INSERT on users`. */
  missing: string[] | null
}

const selectRights = (
  schema: string | null,
) => sql`select current_user as role, pg_is_in_recovery() as is_standby,
  current_setting('transaction_read_only') = 'on' as is_read_only,
  has_database_privilege(current_database(), 'CREATE') as can_create_extension,
  case when ${schema}::text is null then has_database_privilege(current_database(), 'CREATE')
      and coalesce(has_schema_privilege(coalesce((select relnamespace from pg_class where oid = to_regclass('users')
          and to_regclass(${getRecordTable(DEFAULT_SCHEMA, 'packages')}) is not null),
        to_regnamespace(quote_ident(current_schema()))::oid), 'CREATE'), false)
    else coalesce(has_schema_privilege(to_regnamespace(${schema}::text)::oid, 'CREATE'),
      has_database_privilege(current_database(), 'CREATE')) end as can_create_tables,
  (select has_schema_privilege(oid, 'USAGE') from pg_namespace where nspname = ${schema}) as may_use,
  (select json_agg(p.name || ' on ' || t.name)
    from unnest(string_to_array(${listTableNames().join(',')}, ',')) as t(name), unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as p(name)
    where not has_table_privilege(to_regclass(quote_ident(t.name)), p.name)) as missing`

const SELECT_EXTENSION = sql`select exists (select from pg_extension where extname = 'pg_trgm') as is_installed,
  exists (select from pg_available_extensions where name = 'pg_trgm') as is_available`

async function readRights(database: Database): Promise<Rights> {
  // In the default schema, which may be another one by the role's search path, migrations also create `drizzle`.
  const schema = database.schema === DEFAULT_SCHEMA ? null : database.schema
  const [rights] = await database.execute<Rights>(selectRights(schema))
  if (!rights) throw new Error('The database returned no row')
  return rights
}

function checkRights(schema: string, { role, is_standby, is_read_only, may_use, missing }: Rights): Finding {
  if (is_standby)
    return fail('rights', 'The database is a standby', 'Set DATABASE_URL to the primary server.')
  if (is_read_only)
    return fail(
      'rights',
      'The database is read-only',
      'Set default_transaction_read_only = off for the database and the role.',
    )
  // The tables of such a schema are not found, so that none would lack a right.
  if (may_use === false)
    return fail(
      'rights',
      `The role ${role} lacks USAGE on the schema ${schema}`,
      `Run as its owner: grant usage on schema ${schema} to "${role}"`,
    )
  if (missing === null) return ok('rights', `The role ${role} may read and write all tables`)
  const advice = `Run as the owner of the tables: grant select, insert, update, delete on all tables in schema ${schema} to "${role}"`
  return fail('rights', `The role ${role} lacks ${missing.join(', ')}`, advice)
}

async function checkExtension(database: Database, { role, can_create_extension }: Rights): Promise<Finding> {
  const [extension] = await database.execute<{ is_installed: boolean; is_available: boolean }>(
    SELECT_EXTENSION,
  )
  if (extension?.is_installed) return ok('pg_trgm', 'The extension is installed')
  if (!extension?.is_available)
    return fail(
      'pg_trgm',
      'The server does not have the extension',
      'Install the contrib package of PostgreSQL on the server (Debian: postgresql-contrib).',
    )
  if (can_create_extension) return ok('pg_trgm', 'The extension is available; the first migration creates it')
  return fail(
    'pg_trgm',
    `The extension is not installed, and the role ${role} may not create it`,
    'Run as a superuser in this database: create extension pg_trgm',
  )
}

function checkMigrations(pending: number, config: Config, { role, can_create_tables }: Rights): Finding {
  if (pending === 0) return ok('migrations', 'All migrations of this release are applied')
  const message = `${pending} migration${pending === 1 ? ' is' : 's are'} pending`
  if (can_create_tables && !config.MIGRATE)
    return fail('migrations', `${message}, and MIGRATE is false`, `Run '${identity.program} migrate'.`)
  if (can_create_tables)
    return ok('migrations', `${message}; the next start applies them, or '${identity.program} migrate'`)
  return fail(
    'migrations',
    `${message}, and the role ${role} may not create tables`,
    `Run '${identity.program} migrate' once with a DATABASE_URL of the owner of the ${config.DATABASE_SCHEMA === DEFAULT_SCHEMA ? 'database' : `schema ${config.DATABASE_SCHEMA}`}.`,
  )
}

async function checkSchema(database: Database): Promise<Finding> {
  const { errors, warnings } = await inspectSchema(database)
  if (errors.length > 0) return fail('schema', [...errors, ...warnings].join('; '), SCHEMA_ADVICE)
  if (warnings.length > 0)
    return warn(
      'schema',
      warnings.join('; '),
      'Create what is missing as the files in drizzle/migrations and in the folder migrations of the package database do.',
    )
  return ok('schema', 'The database has all tables, columns and indexes of this release')
}

async function checkReferences(database: Database): Promise<Finding> {
  const references = await readOuterReferences(database)
  if (references.length === 0) return ok('backup', 'No table refers to rows that a backup does not have')
  const message = `A backup does not have the rows to which its own refer: ${references.map(describeReference).join('; ')}`
  return warn(
    'backup',
    message,
    'Back up with pg_dump, or restore those rows first: docs/operators/backup-and-restore.md.',
  )
}

async function checkClock(database: Database): Promise<Finding> {
  const before = Date.now()
  const [row] = await database.run('select (extract(epoch from clock_timestamp()) * 1000)::int8 as now')
  const difference = Number(row?.now) - (before + Date.now()) / 2
  const message = `The clocks of the database and of this machine differ by ${(Math.abs(difference) / 1000).toFixed(1)} s`
  const advice = 'Synchronize both clocks (NTP).'
  if (!(Math.abs(difference) <= CLOCK_FAILURE_MS)) return fail('clock', message, advice)
  return Math.abs(difference) > CLOCK_WARNING_MS ? warn('clock', message, advice) : ok('clock', message)
}

/**
 * Checks everything that holds on one connection, in the order in which a start would fail.
 * @returns whether the tables are those of this release
 */
export async function* checkDatabase(database: Database, config: Config): AsyncGenerator<Finding, boolean> {
  let rights: Rights
  try {
    rights = await readRights(database)
  } catch (error) {
    yield await attempt('rights', 'Check the server.', () => Promise.reject(error))
    return false
  }
  yield checkRights(database.schema, rights)
  yield await attempt('pg_trgm', 'Check the server.', () => checkExtension(database, rights))
  let pending = Number.NaN
  const records = listRecordTables(database.schema).join(' and ')
  yield await attempt('migrations', `Let the role read ${records}.`, async () => {
    pending = await countPendingMigrations(database)
    return checkMigrations(pending, config, rights)
  })
  // Before the migrations, the tables are those of an earlier release.
  if (pending === 0) {
    yield await attempt('schema', 'Check the server.', () => checkSchema(database))
    yield await attempt('backup', 'Check the server.', () => checkReferences(database))
  }
  if (database.kind === 'server')
    yield await attempt('clock', 'Check the server.', () => checkClock(database))
  return pending === 0
}
