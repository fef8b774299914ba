/** Explains the statements of lists, and checks what their plans scan, sort and read. */
import type { Test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Connection, Database, Param } from '../../../database/src/client/index.ts'
import { toTextValues } from '../../../database/src/client/values.ts'
import type { Json } from '../../../testing/helpers/app.ts'

export interface Statement {
  text: string
  params: readonly Param[]
  /** Whether it is planned for its values each time. */
  custom: boolean
}

export interface Plan {
  /** The type of every node, with its index or table. */
  nodes: string[]
  /** Rows that were read and not returned. */
  removed: number
  /** Rows of the largest sort, without those that begin in order. */
  sorted: number
  /** Rows that the scans returned. */
  read: number
  /** The request, the mode and the nodes. */
  label: string
}

/** Returns a database for an app, and the statements that it runs. */
export function recordStatements(opened: Database) {
  const statements: Statement[] = []
  const database = createDatabase({
    ...opened.$client,
    run: (text, params = [], options = {}) => {
      statements.push({ text, params, custom: options.customPlan ?? false })
      return opened.$client.run(text, params, options)
    },
  })
  return { database, statements }
}

const literal = (text: string | null) => (text === null ? 'null' : `'${text.replaceAll("'", "''")}'`)

/**
 * Explains a statement.
 * @param mode `generic` as a prepared one runs after some executions, planned without its values
 * @param side of a list with a total: the whole statement, or its page, since the total reads all rows
 */
export const explain = (
  opened: Database,
  { text, params }: Statement,
  label: string,
  mode: 'custom' | 'generic',
  side: 'page' | 'whole' = 'page',
): Promise<Plan> =>
  opened.transaction(async (tx: Connection) => {
    await tx.run(`set local plan_cache_mode = force_${mode}_plan`)
    await tx.run(`prepare looked_at as ${text}`)
    const values = params.length > 0 ? `(${toTextValues(params).map(literal).join()})` : ''
    const [row] = await tx.run(`explain (analyze, timing off, format json) execute looked_at${values}`)
    await tx.run('deallocate looked_at')
    const plan: Plan = { nodes: [], removed: 0, sorted: 0, read: 0, label: '' }
    const walk = (node: Json) => {
      const target = node['Index Name'] ?? node['Relation Name']
      plan.nodes.push(target ? `${node['Node Type']} ${target}` : node['Node Type'])
      plan.removed += (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops']
      // The values of a filter are a scan too, of a function.
      if (node['Relation Name']) plan.read += node['Actual Rows'] * node['Actual Loops']
      if (node['Node Type'] === 'Sort')
        plan.sorted = Math.max(plan.sorted, ...node.Plans.map((from: Json) => from['Actual Rows']))
      for (const each of node.Plans ?? []) walk(each)
    }
    const found: Json = row?.['QUERY PLAN']
    const { Plan: root } = (typeof found === 'string' ? JSON.parse(found) : found)[0]
    walk(side === 'page' && text.includes('total_count') ? root.Plans[1] : root)
    return { ...plan, label: `${label}, ${mode}: ${plan.nodes}` }
  })

export interface Limits {
  /** An index that is scanned. */
  index?: string
  /** Whether nothing is sorted, or nothing as a whole. */
  unsorted?: 'at all' | 'as a whole'
  /** The most rows that are sorted, removed, and read and removed. */
  sorted?: number
  removed?: number
  read?: number
}

/** Checks that no plan scans a table, and that each keeps the limits. */
export function checkPlans(t: Test, plans: readonly Plan[], limits: Limits) {
  const { index, unsorted, sorted = Infinity, removed = Infinity, read = Infinity } = limits
  const sort = unsorted === 'at all' ? /Sort\b/ : /^Sort\b/
  t.ok(plans.length > 0)
  for (const plan of plans) {
    const { label, nodes } = plan
    t.notOk(
      nodes.some((node) => node.startsWith('Seq Scan') || (unsorted && sort.test(node))),
      label,
    )
    t.ok(!index || nodes.some((node) => node.endsWith(`Scan ${index}`)), `${label}: uses ${index}`)
    t.ok(plan.sorted <= sorted, `${label}: sorts ${plan.sorted} rows`)
    t.ok(plan.removed <= removed, `${label}: removes ${plan.removed} rows`)
    t.ok(plan.read + plan.removed <= read, `${label}: reads ${plan.read + plan.removed} rows`)
  }
}
