/** One kind of demo rows. A step whose resource is not registered in src/app.ts is skipped. */
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/index.ts'
import { insertRows } from './insert.ts'
import type { SeedContext } from './seed-context.ts'

interface StepOptions<T extends PgTable> {
  resource: string
  /** The name in the summary, such as `profiles`. */
  label: string
  table: T
  /** The rows that a row refers to are those of an earlier stage. */
  stage: 0 | 1 | 2
  /** How many indices each user has. */
  indicesPerUser: number
  /** Returns the number of rows, if an index may have none. */
  countRows?(users: number): number
  /** Builds the rows of one index. */
  build(context: SeedContext, index: number): readonly T['$inferSelect'][]
}

export interface SeedStep
  extends Pick<StepOptions<PgTable>, 'resource' | 'label' | 'table' | 'stage' | 'indicesPerUser'> {
  countRows(users: number): number
  /** Inserts the rows of some indices. @returns the number of rows */
  insert(tx: Connection, context: SeedContext, indices: readonly number[]): Promise<number>
}

export function createSeedStep<T extends PgTable>(options: StepOptions<T>): SeedStep {
  const { resource, label, table, stage, indicesPerUser, build } = options
  return {
    resource,
    label,
    table,
    stage,
    indicesPerUser,
    countRows: (users) => options.countRows?.(users) ?? users * indicesPerUser,
    async insert(tx, context, indices) {
      const rows = indices.flatMap((index) => build(context, index))
      await insertRows(tx, table, rows)
      return rows.length
    },
  }
}

/** Writes rows in a transaction and returns their number. */
export type Batch = (tx: Connection) => Promise<number>

/** Rows per batch: enough that the round trip does not matter, few enough for little memory. */
const BATCH_SIZE = 1_000

/** Returns a function for each batch that returns its indices. */
export const sliceIndices = (count: number): (() => number[])[] =>
  Array.from({ length: Math.ceil(count / BATCH_SIZE) }, (_, i) => () => {
    const from = i * BATCH_SIZE
    return Array.from({ length: Math.min(BATCH_SIZE, count - from) }, (__, j) => from + j)
  })
