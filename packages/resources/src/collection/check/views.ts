/** Checks views with the database: that their ids are unique, and which filters read all rows of a large table. */
import type { Connection, Database } from '@resource-api/database'
import { getColumnType, isStatementTimeout } from '@resource-api/database/internal'
import { sql } from 'drizzle-orm'
import type { Resource } from '../resource.ts'
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

/** Returns the columns that filters compare, by the parameters that are not named `unindexed`. */
const listFilterColumns = ({
  filters,
  ranges = [],
  nullChecks = [],
  relations,
  parent,
  unindexed = [],
}: Resource) =>
  [
    ...(parent ? [[parent.member, parent.member] as const] : []),
    ...[...new Set([...filters, ...ranges])].map((name) => [name, name] as const),
    ...nullChecks.map((name) => [`${name}_null`, name] as const),
    ...Object.entries(relations).flatMap(([relation, { filters: fields = [], local }]) =>
      fields.map((field) => [`${relation}.${field}`, local] as const),
    ),
  ].filter(([parameter]) => !unindexed.includes(parameter))

/** Returns the large tables of which a filter by a column reads all rows, whatever the value. */
async function findScannedTables(
  tx: Connection,
  { columns, table }: Resource,
  name: string,
  isNull: boolean,
) {
  const column = getColumn(columns, name)
  // In a subquery, whose value the planner does not know.
  const value = sql`(select null::${sql.raw(getColumnType(column))})`
  const condition = isNull ? sql`${column} is null` : sql`${column} = ${value}`
  const [row] = await tx.execute<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    sql`explain (format json) select from ${table} where ${condition}`,
  )
  const scanned = (row?.['QUERY PLAN'] ?? []).flatMap(({ Plan }) =>
    listNodes(Plan).flatMap((node) => {
      const isByIndex = node['Index Cond'] !== undefined || node['Node Type'] === 'Bitmap Heap Scan'
      return isByIndex ? [] : (node['Relation Name'] ?? [])
    }),
  )
  const large = await tx.execute<{ name: string }>(
    sql`select relname::text as name from pg_class where relname = any(string_to_array(${scanned.join()}, ','))
      and pg_table_is_visible(oid) and reltuples >= ${LARGE_TABLE_ROWS}::float4 order by relname`,
  )
  return large.map((each) => each.name)
}

async function findMistakes(tx: Connection, resource: Resource): Promise<string[]> {
  const { name, table } = resource
  const [repeated] = await tx.execute<{ id: string | null }>(
    sql`select ${table.id}::text as id from ${table} group by ${table.id} having count(*) > 1 or ${table.id} is null limit 1`,
  )
  // A plan has a scan without an index only where there is no other way.
  for (const kind of ['seqscan', 'hashjoin', 'mergejoin'])
    await tx.execute(sql`select set_config(${`enable_${kind}`}, 'off', true)`)
  const mistakes = repeated
    ? [`rows of its view share the id ${repeated.id}, which must be unique and not null`]
    : []
  for (const [parameter, column] of listFilterColumns(resource)) {
    const scanned = await findScannedTables(tx, resource, column, parameter.endsWith('_null'))
    if (scanned.length > 0)
      mistakes.push(
        `filter "${parameter}" of its view reads all rows of ${scanned.join(', ')}; add an index, or name "${parameter}" in \`unindexed\` with a comment that says why`,
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
