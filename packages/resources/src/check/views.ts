/** Checks views with the database: that their ids are unique, and what reads all rows of a large table. */
import type { Connection, Database } from '@resource-api/database'
import { isStatementTimeout } from '@resource-api/database/errors'
import { getColumnType } from '@resource-api/database/tables'
import { type SQLWrapper, sql } from 'drizzle-orm'
import type { Resource } from '../definition/resource.ts'
import { getColumn } from '../sql/conditions.ts'

const LARGE_TABLE_ROWS = 10_000

/** A node of EXPLAIN (FORMAT JSON). */
interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Cond'?: string
  Plans?: readonly PlanNode[]
}

const listNodes = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(listNodes)]

/** Returns whether a scan reads by an index condition. A bitmap scan has it in its indexes, which it may read whole. */
const isByIndex = (node: PlanNode): boolean =>
  node['Node Type'] === 'Bitmap Heap Scan'
    ? listNodes(node).every((each) => each['Node Type'] !== 'Bitmap Index Scan' || isByIndex(each))
    : node['Index Cond'] !== undefined

/** Returns the columns that reads and filters compare, by the parameters that are not named `unindexed`. */
const listComparedColumns = ({
  filters,
  ranges = [],
  nullChecks = [],
  relations,
  parent,
  unindexed = [],
}: Resource) =>
  [
    ['id', 'id'] as const,
    ...(parent ? [[parent.member, parent.member] as const] : []),
    ...[...new Set([...filters, ...ranges])].map((name) => [name, name] as const),
    ...nullChecks.map((name) => [`${name}_null`, name] as const),
    ...Object.entries(relations).flatMap(([relation, { filters: fields = [], local }]) =>
      fields.map((field) => [`${relation}.${field}`, local] as const),
    ),
  ].filter(([parameter]) => !unindexed.includes(parameter))

/** From then on, a plan of the transaction has a scan without an index only where there is no other way. */
export async function avoidScans(tx: Connection): Promise<void> {
  for (const kind of ['seqscan', 'hashjoin', 'mergejoin'])
    await tx.execute(sql`select set_config(${`enable_${kind}`}, 'off', true)`)
}

/**
 * Returns the tables of which a comparison with a column reads all rows, whatever the value.
 * @param type of the column; undefined to look for null
 * @param minRows of a table that matters
 */
export async function findScannedTables(
  tx: Connection,
  view: SQLWrapper,
  { column, type, minRows }: { column: SQLWrapper; type: string | undefined; minRows: number },
): Promise<string[]> {
  // In a subquery, whose value the planner does not know.
  const condition =
    type === undefined ? sql`${column} is null` : sql`${column} = (select null::${sql.raw(type)})`
  const [row] = await tx.execute<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    sql`explain (format json) select from ${view} where ${condition}`,
  )
  const scanned = (row?.['QUERY PLAN'] ?? []).flatMap(({ Plan }) =>
    listNodes(Plan).flatMap((node) => (isByIndex(node) ? [] : (node['Relation Name'] ?? []))),
  )
  // Nothing is scanned in what stands in for a database when documents are written.
  if (scanned.length === 0) return []
  const large = await tx.execute<{ name: string }>(
    sql`select relname::text as name from pg_class where relname = any(string_to_array(${scanned.join()}, ','))
      and pg_table_is_visible(oid) and reltuples >= ${minRows}::float4 order by relname`,
  )
  return large.map((each) => each.name)
}

/** Returns a key that several rows have, or null if one has none; undefined if all keys are unique. */
export async function findRepeatedKey(
  tx: Connection,
  view: SQLWrapper,
  key: SQLWrapper,
): Promise<string | null | undefined> {
  const [repeated] = await tx.execute<{ id: string | null }>(
    sql`select ${key}::text as id from ${view} group by ${key} having count(*) > 1 or ${key} is null limit 1`,
  )
  return repeated?.id
}

async function findMistakes(tx: Connection, resource: Resource): Promise<string[]> {
  const { columns, name, rowParts, table } = resource
  const repeated = await findRepeatedKey(tx, table, rowParts.key.parts[0].column)
  await avoidScans(tx)
  const mistakes =
    repeated === undefined
      ? []
      : [`rows of its view share the id ${repeated}, which must be unique and not null`]
  for (const [parameter, field] of listComparedColumns(resource)) {
    const column = getColumn(columns, field)
    const type = parameter.endsWith('_null') ? undefined : getColumnType(column)
    const scanned = await findScannedTables(tx, table, { column, type, minRows: LARGE_TABLE_ROWS })
    const reader = parameter === 'id' ? 'a read by id' : `filter "${parameter}"`
    if (scanned.length > 0)
      mistakes.push(
        `${reader} of its view reads all rows of ${scanned.join(', ')}; add an index, or name "${parameter}" in \`unindexed\` with a comment that says why`,
      )
  }
  return mistakes.map((each) => `${name}: ${each}`)
}

/**
 * Returns the mistakes in the views of resources, as far as the rows of the database show them.
 * @param onTimeout called with the name of a collection whose view is too slow to be checked
 */
export async function findViewMistakes(
  database: Database,
  resources: readonly Resource[],
  onTimeout: (collection: string) => void,
): Promise<string[]> {
  const mistakes: string[] = []
  for (const resource of resources.filter(({ isView }) => isView)) {
    try {
      mistakes.push(...(await database.transaction((tx) => findMistakes(tx, resource))))
    } catch (error) {
      if (!isStatementTimeout(error)) throw error
      onTimeout(resource.name)
    }
  }
  return mistakes
}
