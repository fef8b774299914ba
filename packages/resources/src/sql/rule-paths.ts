/** Compiles the paths of access rules: `organization.memberships.user_id` becomes `exists (select ...)`. */
import {
  CALLER,
  type Condition,
  getRuleFields,
  getRulePaths,
  isPath,
  NOT_NULL,
  type Rule,
} from '@resource-api/api/rules'
import { and, eq, getTableColumns, gt, isNotNull, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import { alias, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import type { Resource } from '../definition/resource.ts'

type Columns = Readonly<Record<string, PgColumn>>

/** What rules are compiled from. */
export type RuleSource = Pick<Resource, 'columns' | 'relations'>

/** How a rule refers to what is not in the related rows. */
export interface RuleScope {
  /** Returns a column of the row that the rule is about. */
  getLocal(name: string): SQLWrapper
  /** Returns the id of the caller, to be compared with a column. */
  getCaller(column: PgColumn): unknown
}

/** The relations of one condition that begin with the same steps, and the columns that are compared in their rows. */
interface Branch {
  columns: [name: string, wanted: Condition[string]][]
  branches: Map<string, Branch>
}

const createBranch = (): Branch => ({ columns: [], branches: new Map() })

/** Returns the branches of a condition by their first relations. */
function toBranches(condition: Condition): Branch['branches'] {
  const root = createBranch()
  for (const [path, wanted] of Object.entries(condition)) {
    if (!isPath(path)) continue
    const steps = path.split('.')
    const column = steps.pop() ?? ''
    let branch = root
    for (const step of steps) {
      const next = branch.branches.get(step) ?? createBranch()
      branch.branches.set(step, next)
      branch = next
    }
    branch.columns.push([column, wanted])
  }
  return root.branches
}

const getRelation = ({ relations }: Pick<Resource, 'relations'>, name: string) => {
  const relation = relations[name]
  if (!relation) throw new Error(`There is no relation ${name}`)
  return relation
}

const getColumn = (columns: Columns, name: string): PgColumn => {
  const column = columns[name]
  if (!column) throw new Error(`There is no column ${name}`)
  return column
}

/** Returns a column of the joined rows, from that of the table itself. */
const findColumn = (columns: Columns, { name }: PgColumn): PgColumn =>
  getColumn(columns, Object.keys(columns).find((member) => columns[member]?.name === name) ?? '')

/** The joined rows of a branch. */
interface Join {
  tables: SQL[]
  conditions: (SQL | undefined)[]
}

/** Adds the rows of a relation to a join. @returns the column that equals that of the row before */
function addRelation(
  join: Join,
  source: Pick<Resource, 'relations'>,
  [name, branch]: [string, Branch],
  { getCaller }: Pick<RuleScope, 'getCaller'>,
): PgColumn {
  const { to, foreign, through } = getRelation(source, name)
  const addTable = (table: PgTable): Columns => {
    const own = `via_${join.tables.length + 1}`
    join.tables.push(sql`${table} ${sql.identifier(own)}`)
    return getTableColumns(alias(table, own))
  }
  const columns = addTable(to.table)
  let key = getColumn(columns, foreign)
  if (through) {
    const joined = addTable(through.table)
    join.conditions.push(eq(key, findColumn(joined, through.foreign)))
    key = findColumn(joined, through.local)
  }
  if (to.expiry) join.conditions.push(gt(findColumn(columns, to.expiry), sql`now()`))
  for (const [column, wanted] of branch.columns) {
    const compared = getColumn(columns, column)
    join.conditions.push(
      wanted === NOT_NULL
        ? isNotNull(compared)
        : eq(compared, wanted === CALLER ? getCaller(compared) : wanted),
    )
  }
  for (const each of branch.branches) {
    const foreignKey = addRelation(join, to, each, { getCaller })
    join.conditions.push(eq(foreignKey, getColumn(columns, getRelation(to, each[0]).local)))
  }
  return key
}

const buildFrom = ({ tables, conditions }: Join): SQL =>
  sql`from ${sql.join(tables, sql`, `)} where ${and(...conditions) ?? sql`true`}`

/** Builds the paths of a condition: for each first relation, that related rows exist. */
export const buildPathConditions = (source: RuleSource, condition: Condition, scope: RuleScope): SQL[] =>
  [...toBranches(condition)].map((each) => {
    const join: Join = { tables: [], conditions: [] }
    const key = addRelation(join, source, each, scope)
    join.conditions.unshift(sql`${key} = ${scope.getLocal(getRelation(source, each[0]).local)}`)
    return sql`exists (select ${buildFrom(join)})`
  })

const namesCaller = ({ columns, branches }: Branch): boolean =>
  columns.some(([, wanted]) => wanted === CALLER) || [...branches.values()].some(namesCaller)

/** The rows that a condition permits, found from the caller. */
export interface CallerKeys {
  /** The column of the row that equals one of the keys. */
  local: string
  /** A query for the keys of the caller, in the column `key`. */
  keys: SQL
  /** The rest of the condition. */
  others: Condition
}

/** Returns how the rows of a condition are found from the caller; undefined if no path of it compares the caller. */
export function findCallerKeys(
  source: RuleSource,
  condition: Condition,
  scope: Pick<RuleScope, 'getCaller'>,
): CallerKeys | undefined {
  const first = [...toBranches(condition)].find(([, branch]) => namesCaller(branch))
  if (!first) return undefined
  const join: Join = { tables: [], conditions: [] }
  const key = addRelation(join, source, first, scope)
  const others = Object.entries(condition).filter(([name]) => !name.startsWith(`${first[0]}.`))
  return {
    local: getRelation(source, first[0]).local,
    keys: sql`select distinct ${key} as key ${buildFrom(join)}`,
    others: Object.fromEntries(others),
  }
}

type Source = Pick<Resource, 'relations'>

/** Returns the first step of a path that compares columns or leads to several relations, and whose relation it is. */
function findComparingStep(source: Source, step: [string, Branch]): [Source, [string, Branch]] {
  const [name, { columns, branches }] = step
  const [next] = branches
  if (columns.length > 0 || branches.size > 1 || !next) return [source, step]
  return findComparingStep(getRelation(source, name).to, next)
}

/**
 * Builds queries for the keys of the rows about the caller, in the column `key`, such as the organizations of which the
 * caller is a member: one for each path of a condition that compares the caller. The steps before these rows are left out:
 * with `project.organization.memberships.user_id`, the keys are not those of all projects.
 */
export const buildCallerKeys = (
  source: Source,
  condition: Condition,
  scope: Pick<RuleScope, 'getCaller'>,
): SQL[] =>
  [...toBranches(condition)]
    .filter(([, branch]) => namesCaller(branch))
    .map((each) => {
      const join: Join = { tables: [], conditions: [] }
      const key = addRelation(join, ...findComparingStep(source, each), scope)
      return sql`select distinct ${key} as key ${buildFrom(join)}`
    })

/** Returns the columns of the row on which a rule depends: those that it compares, and the keys of its first relations. */
export const listRuleColumns = (source: Pick<Resource, 'relations'>, rule: Rule): string[] => [
  ...new Set([
    ...getRuleFields(rule),
    ...getRulePaths(rule).map((path) => getRelation(source, path.slice(0, path.indexOf('.'))).local),
  ]),
]
