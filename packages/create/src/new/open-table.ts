/** Opens the table or the view of `--from`. */
import { type Database, openDatabase } from '@resource-api/database'
import { readConfig } from '@resource-api/http/config'
import { sql } from 'drizzle-orm'
import { UsageError } from '../usage-error.ts'
import { type Column, readTable, selectColumns } from './from-table.ts'
import { readView } from './from-view.ts'
import type { Answers, KnownResource } from './resource-plan.ts'

const selectKind = (table: string) => sql`select relkind from pg_class where oid = to_regclass(${table})`

/**
 * Reads the table or the view of `--from` in the database of the settings.
 * @throws UsageError if no resource can be stored in it
 */
export async function openTable(name: string, answers: Answers, known: readonly KnownResource[]) {
  const { DATABASE_URL: url, DATABASE_SCHEMA: schema, DATA_DIR: dataDir, POOL_SIZE: poolSize } = readConfig()
  const [, given, sqlName = ''] = /^(?:([a-z_][a-z0-9_]*)\.)?([a-z_][a-z0-9_]*)$/.exec(name) ?? []
  if (sqlName === '')
    throw new UsageError(`--from: "${name}" is not the name of a table, as in public.invoices`)
  if (given !== undefined && given !== schema)
    throw new UsageError(
      `--from: the tables of the application are in the schema "${schema}": set DATABASE_SCHEMA=${given}`,
    )
  const database = await openDatabase({ url, schema, poolSize, dataDir })
  try {
    return await readRelation(database, sqlName, answers, known)
  } finally {
    await database.close()
  }
}

/** Reads a table or a view. @throws UsageError */
export async function readRelation(
  database: Database,
  sqlName: string,
  answers: Answers,
  known: readonly KnownResource[],
) {
  const [{ relkind = '' } = {}] = await database.execute<{ relkind?: string }>(selectKind(sqlName))
  if (relkind === 'v' || relkind === 'm') {
    const columns = await database.execute<Column>(selectColumns(sqlName))
    return readView(database, { sqlName, isMaterialized: relkind === 'm', columns }, answers, known)
  }
  if (relkind === '') throw new UsageError(`--from: there is no table or view ${database.schema}.${sqlName}`)
  if (answers.fields !== undefined)
    throw new UsageError('--fields: the fields are those of the table of --from; edit the files afterwards')
  if (answers.key !== undefined) throw new UsageError(`--key: ${sqlName} is a table, whose key is id`)
  return readTable(database, sqlName, known)
}
