/** Finds paths of access rules that lead nowhere, that can never hold, or of which a step has no index. */
import { getTableColumns, getTableName } from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import { CALLER, type Condition, formatWanted, isPath, NOT_NULL } from '../../access/rules.ts'
import type { ResourceDefinition } from '../definition.ts'
import type { ResourceTable } from '../resource-table.ts'
import { getIndexes } from '../sql/table-facts.ts'
import { createReport } from './names.ts'

const MAX_STEPS = 3

/** The SQL types of columns that can hold a user's id. */
const CALLER_TYPE = /^(?:uuid|text|varchar)\b/

/** Returns whether an index or a constraint begins with a column. */
function isLeading(table: PgTable, name: string): boolean {
  const { columns, primaryKeys, uniqueConstraints } = getTableConfig(table)
  const own = columns.find((column) => column.name === name)
  return (
    own?.primary === true ||
    own?.isUnique === true ||
    getIndexes(table).some(([first]) => first === name) ||
    [...primaryKeys, ...uniqueConstraints].some((each) => each.columns[0]?.name === name)
  )
}

const quoteAll = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ') || 'none'

type ByTable = ReadonlyMap<ResourceTable, ResourceDefinition>

/** Returns the mistakes in one path. */
function findMistakes(
  definition: ResourceDefinition,
  path: string,
  wanted: Condition[string],
  byTable: ByTable,
): string[] {
  const { mistakes, report } = createReport()
  const steps = path.split('.')
  const name = steps.pop() ?? ''
  report(steps.length > MAX_STEPS, `has more than ${MAX_STEPS} relations`)
  const isCaller = wanted === CALLER
  const needIndex = (table: PgTable, column: string) =>
    report(!isLeading(table, column), `needs an index of ${getTableName(table)} that begins with "${column}"`)
  let source = definition
  for (const step of steps) {
    const relation = source.relations[step]
    const to = relation && byTable.get(relation.to)
    if (!relation || !to) {
      const known = Object.keys(source.relations).filter((each) => {
        const target = source.relations[each]?.to
        return target && byTable.has(target)
      })
      report(true, `names "${step}", which is no relation of ${source.name}; there are ${quoteAll(known)}`)
      return mistakes
    }
    const { local, foreign, through } = relation
    if (through) needIndex(through.table, through.local.name)
    needIndex(relation.to, foreign)
    // Lists begin with the caller, and follow the path to the rows. Under a parent, they begin with the parent.
    if (isCaller && through) needIndex(through.table, through.foreign.name)
    if (isCaller && !(source === definition && definition.parent)) needIndex(source.table, local)
    source = to
  }
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(source.table)
  const type = columns[name]?.getSQLType()
  const states = source.schemas.read.properties[name]?.enum
  if (type === undefined)
    report(
      true,
      `names "${name}", which is no column of ${source.name}; there are ${quoteAll(Object.keys(columns))}`,
    )
  else if (isCaller) {
    const canBeCaller = CALLER_TYPE.test(type) && !states
    report(!canBeCaller, `compares "${name}" with the caller: it is no uuid and no text`)
    needIndex(source.table, name)
  } else if (wanted === NOT_NULL) report(columns[name]?.notNull === true, `is always ${formatWanted(wanted)}`)
  else if (states)
    report(!states.includes(wanted), `is never "${formatWanted(wanted)}"; there are ${quoteAll(states)}`)
  return mistakes
}

/** @param byTable all definitions, with the inverses of their relations */
export function findPathMistakes(definition: ResourceDefinition, byTable: ByTable): string[] {
  const { access, operations = {}, relations } = definition
  const rules = [
    ...Object.entries(access),
    ...Object.entries(operations).map(([name, operation]) => [name, operation.access] as const),
  ]
  const found = rules.flatMap(([verb, byRole]) =>
    Object.entries(byRole).flatMap(([role, rule]) =>
      (typeof rule === 'boolean' ? [] : rule).flatMap((condition) =>
        Object.entries(condition)
          .filter(([path]) => isPath(path))
          .flatMap(([path, wanted]) => {
            const first = relations[path.slice(0, path.indexOf('.'))]
            const isEmpty = verb === 'create' && first?.local === 'id'
            const mistakes = findMistakes(definition, path, wanted, byTable)
            return [
              ...mistakes,
              ...(isEmpty ? ['begins with rows that refer to the new one, of which there are none'] : []),
            ].map((mistake) => `access to ${verb} of ${role}: "${path}" ${mistake}`)
          }),
      ),
    ),
  )
  return [...new Set(found)]
}
