/** Explains prepared statements and counts the pages that they touch. */
import type postgres from 'postgres'
import { toTextValues } from '../../packages/database/src/client/values.ts'
import type { RecordedStatement } from './statement-recorder.ts'

export interface StatementCost {
  /** Pages of tables and indexes, cached or not. */
  buffers: number
  /** The indexes, sequential scans and sorts of the plan: `users_created_at`, `Seq Scan users`. */
  scans: string[]
}

interface PlanNode {
  'Node Type': string
  'Index Name'?: string
  'Relation Name'?: string
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: PlanNode[]
}

/** Executions after which PostgreSQL chooses between a generic plan and custom plans. */
const CUSTOM_PLAN_EXECUTIONS = 5
/** A slower execution is not repeated. */
const SLOW_EXECUTION_MS = 1_000
const QUERY_CANCELED = '57014'

const toLiteral = (text: string | null) => (text === null ? 'null' : `'${text.replaceAll("'", "''")}'`)

function collectScans(node: PlanNode): string[] {
  const type = node['Node Type']
  const isScan = node['Index Name'] !== undefined || /^Seq|Sort/.test(type)
  const name = node['Index Name'] ?? [type, node['Relation Name']].filter(Boolean).join(' ')
  return [...(isScan ? [name] : []), ...(node.Plans ?? []).flatMap(collectScans)]
}

async function explainPrepared(sql: postgres.Sql, { params }: RecordedStatement): Promise<StatementCost> {
  const values = params.length > 0 ? `(${toTextValues(params).map(toLiteral).join()})` : ''
  const [row] = await sql.unsafe(
    `explain (analyze, buffers, timing off, format json) execute explained${values}`,
  )
  if (!row) throw new Error('EXPLAIN returned no row')
  const [{ Plan: plan }]: [{ Plan: PlanNode }] = row['QUERY PLAN']
  return { buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], scans: collectScans(plan) }
}

/**
 * Explains executions of one statement with the plan that PostgreSQL keeps in the long run.
 * @param executions the same text with different parameters
 * @returns undefined if an execution exceeds the statement timeout of the connection
 */
export async function explainExecutions(
  sql: postgres.Sql,
  executions: readonly RecordedStatement[],
): Promise<StatementCost[] | undefined> {
  const [first] = executions
  if (!first) return []
  await sql.unsafe(`set plan_cache_mode = ${first.hasCustomPlan ? 'force_custom_plan' : 'auto'}`)
  await sql.unsafe(`prepare explained as ${first.text}`)
  try {
    for (let i = 0; i < CUSTOM_PLAN_EXECUTIONS; i++) {
      const startedAt = performance.now()
      const cost = await explainPrepared(sql, executions[i % executions.length] ?? first)
      if (performance.now() - startedAt > SLOW_EXECUTION_MS) return [cost]
    }
    const costs: StatementCost[] = []
    for (const execution of executions) costs.push(await explainPrepared(sql, execution))
    return costs
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, 'code') === QUERY_CANCELED) return undefined
    throw error
  } finally {
    await sql.unsafe('deallocate explained')
  }
}
