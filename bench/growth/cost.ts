/** What a statement touches, from EXPLAIN: as it is planned in the long run, once it has been prepared for a while. */
import type postgres from 'postgres'
import type { Asked } from './watched.ts'

export interface Cost {
  /** Pages of tables and indexes, in memory or not. */
  buffers: number
  /** What the rows come from: `users_created_at`, `Seq Scan users`; in front of it what sorts. */
  ways: string[]
}

interface Node {
  'Node Type': string
  'Index Name'?: string
  'Relation Name'?: string
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: Node[]
}

/** Executions after which PostgreSQL decides for good whether to plan for each one's values. */
const UNDECIDED = 5
/** Milliseconds: what takes longer is not asked so often. */
const LONG = 1_000

const literal = (param: Asked['params'][number]) =>
  param === null ? 'null' : `'${String(param).replaceAll("'", "''")}'`

function waysOf(node: Node): string[] {
  const type = node['Node Type']
  const isWay = node['Index Name'] !== undefined || /^Seq|Sort/.test(type)
  const own = node['Index Name'] ?? [type, node['Relation Name']].filter(Boolean).join(' ')
  return [...(isWay ? [own] : []), ...(node.Plans ?? []).flatMap(waysOf)]
}

/** @returns undefined where it takes longer than the connection lets it */
export async function costOf(sql: postgres.Sql, same: readonly Asked[]): Promise<Cost[] | undefined> {
  const [first] = same
  if (!first) return []
  const explain = async ({ params }: Asked): Promise<Cost> => {
    const values = params.length > 0 ? `(${params.map(literal).join()})` : ''
    const [row] = await sql.unsafe(
      `explain (analyze, buffers, timing off, format json) execute looked_at${values}`,
    )
    if (!row) throw new Error('EXPLAIN said nothing')
    const [{ Plan: plan }]: [{ Plan: Node }] = row['QUERY PLAN']
    return { buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], ways: waysOf(plan) }
  }
  await sql.unsafe(`set plan_cache_mode = ${first.custom ? 'force_custom_plan' : 'auto'}`)
  await sql.unsafe(`prepare looked_at as ${first.text}`)
  try {
    for (let i = 0; i < UNDECIDED; i++) {
      const began = performance.now()
      const cost = await explain(same[i % same.length] ?? first)
      if (performance.now() - began > LONG) return [cost]
    }
    const costs: Cost[] = []
    for (const each of same) costs.push(await explain(each))
    return costs
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, 'code') === '57014') return undefined
    throw error
  } finally {
    await sql.unsafe('deallocate looked_at')
  }
}
