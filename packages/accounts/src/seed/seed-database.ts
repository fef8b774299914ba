/** Writes realistic demo data, the same for the same seed, in concurrent batches. */
import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Connection, type Database, users as usersTable } from '@resource-api/database'
import { withProgress } from '@resource-api/http/commands'
import type { ResourceDefinition } from '@resource-api/resources/internal'
import { buildSearchText } from '@resource-api/resources/search-text'
import { eq, getTableColumns, getTableName, sql } from 'drizzle-orm'
import { getTableConfig, type PgSequence, type PgTable } from 'drizzle-orm/pg-core'
import { type Batch, writeBatches, writeInBulk } from './bulk.ts'
import type { SeedContext, SeedStep } from './step.ts'
import { demoUsers, getPerson } from './users.ts'

export interface SeedOptions extends SeedContext {
  /** The registered resources; only they get rows. */
  definitions: readonly ResourceDefinition[]
  /** The folder with the demo rows of the application's resources. */
  folder: URL
  /** Batches written concurrently; at most the number of database connections. */
  concurrency: number
  /**
   * Whether to fill empty tables in one transaction and create their indexes afterwards: several times as fast for many
   * rows. The tables are locked against all other access until the end.
   */
  bulk?: boolean
}

/** The database already contains data of this seed. The message is for the operator. */
export class AlreadySeededError extends Error {
  override readonly name = 'AlreadySeededError'
}

/** Inserting into the trigram indexes is the most expensive part; a longer pending list makes it cheaper. */
const RAISE_PENDING_LIST_LIMIT = 'set local gin_pending_list_limit = 65536'

/** Rows per batch: enough that the round trip does not matter, few enough for little memory. */
const BATCH_SIZE = 1_000

/** Inserts rows with one statement: sends them as one JSON text, which PostgreSQL converts to the column types. */
async function insertRows(tx: Connection, table: PgTable, rows: readonly object[]): Promise<void> {
  const name = getTableName(table)
  const columns = Object.values(getTableColumns(table))
    .map((column) => `"${column.name}"`)
    .join(', ')
  await tx.run(
    `insert into "${name}" (${columns}) select ${columns} from json_populate_recordset(null::"${name}", $1::json)`,
    [JSON.stringify(rows)],
  )
}

/**
 * Draws numbers of a sequence, which follow each other. If a running server has drawn one in between, all are drawn again:
 * the numbers may have gaps, and a sequence cannot be locked on Citus.
 * @returns the first one
 */
async function reserveNumbers(
  database: Database,
  { seqName = '' }: PgSequence,
  count: number,
): Promise<number> {
  for (;;) {
    const [drawn] = await database.execute<{ first: number; last: number }>(
      sql`select coalesce(min(drawn), 1) as first, coalesce(max(drawn), 0) as last
        from (select nextval(${seqName}) as drawn from generate_series(1, ${count}::bigint)) as numbers`,
    )
    if (drawn && drawn.last - drawn.first + 1 === count) return drawn.first
  }
}

/** Returns the steps of resources: each is the export `demoRows` of a file in the folder with the resource's name. */
async function loadSteps(definitions: readonly ResourceDefinition[], folder: URL): Promise<SeedStep[]> {
  const extension = extname(fileURLToPath(import.meta.url))
  const files = definitions.map(({ name }) => new URL(`${name}${extension}`, folder))
  const steps = await Promise.all(
    files.filter(existsSync).map(async ({ href }) => {
      const { demoRows }: { demoRows: SeedStep } = await import(href)
      return demoRows
    }),
  )
  return definitions.some(({ table }) => table === usersTable) ? [demoUsers, ...steps] : steps
}

/** Returns the steps in stages: rows refer only to rows of earlier stages. */
function toStages(steps: readonly SeedStep[]): SeedStep[][] {
  const stages: SeedStep[][] = []
  let rest = [...steps]
  while (rest.length > 0) {
    const open = new Set(rest.flatMap((step) => Object.values(step.tables)))
    const refersTo = (step: SeedStep) =>
      Object.values(step.tables).flatMap((table) =>
        getTableConfig(table).foreignKeys.map((key) => key.reference().foreignTable),
      )
    const isReady = (step: SeedStep) =>
      refersTo(step).every((table) => !open.has(table) || Object.values(step.tables).includes(table))
    const ready = rest.filter(isReady)
    // Tables that refer to each other have no order.
    stages.push(ready.length > 0 ? ready : rest)
    rest = ready.length > 0 ? rest.filter((step) => !ready.includes(step)) : []
  }
  return stages
}

/**
 * Adds demo data to a migrated database.
 * @returns the numbers of rows by label, such as `users`
 * @throws AlreadySeededError if the database contains data of this seed, complete or not
 */
export async function seedDatabase(
  database: Database,
  { definitions, folder, seed, users, until, concurrency, bulk = false }: SeedOptions,
): Promise<Record<string, number>> {
  const context: SeedContext = { seed, users, until }
  const isFirst = eq(usersTable.email, getPerson(context, 0).user.email)
  if ((await database.$count(usersTable, isFirst)) > 0)
    throw new AlreadySeededError(
      `The database already contains data of seed ${seed}, complete or not; another --seed adds more`,
    )

  const findDefinition = ({ resource }: SeedStep) => definitions.find(({ name }) => name === resource)
  const stages = toStages(await loadSteps(definitions, folder))
  const steps = stages.flat()
  const firstNumbers = new Map<SeedStep, number>()
  for (const step of steps) {
    if (!step.sequence) continue
    firstNumbers.set(step, await reserveNumbers(database, step.sequence, users * step.indicesPerUser))
  }
  const labeledTables = steps.flatMap((step) => Object.entries(step.tables))
  const tables = labeledTables.map(([, table]) => table)
  const added: Record<string, number> = Object.fromEntries(labeledTables.map(([label]) => [label, 0]))

  /** Returns a batch for every thousand indices. Rows of one index are written together. */
  const createBatches = (step: SeedStep): Batch[] => {
    const count = users * step.indicesPerUser
    const search = findDefinition(step)?.search ?? []
    const firstNumber = firstNumbers.get(step) ?? 0
    // A table without the column `search` ignores it.
    const addSearch = (row: object) => ({ ...row, search: buildSearchText({ ...row }, search) })
    return Array.from({ length: Math.ceil(count / BATCH_SIZE) }, (_, batch) => async (tx) => {
      const from = batch * BATCH_SIZE
      const length = Math.min(BATCH_SIZE, count - from)
      const built = Array.from({ length }, (__, i) => step.build(context, from + i, firstNumber + from + i))
      for (const [label, table] of Object.entries(step.tables)) {
        const rows = built.flatMap((rowsByLabel) => rowsByLabel[label] ?? [])
        await insertRows(tx, table, rows.map(addSearch))
        added[label] = (added[label] ?? 0) + rows.length
      }
    })
  }
  const [userBatches = [], ...others] = stages.map((stage) => stage.flatMap(createBatches))
  // The first batch is written alone: its first user marks the seed as used, also if a later batch fails.
  const batches = [userBatches.slice(0, 1), userBatches.slice(1), ...others]
  await withProgress('batches', batches.flat().length, async (add) => {
    if (bulk && (await writeInBulk(database, tables, batches.flat(), add))) return
    // Each batch has its own transaction. Servers can use the database at the same time.
    const writeAlone = (write: Batch) =>
      database.transaction(
        async (tx) => {
          await tx.run(RAISE_PENDING_LIST_LIMIT)
          await write(tx)
        },
        { statementTimeout: 0 },
      )
    for (const stage of batches) await writeBatches(stage, concurrency, writeAlone, add)
  })
  // Query plans depend on table statistics, which autovacuum would update only later.
  for (const table of tables) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return added
}
