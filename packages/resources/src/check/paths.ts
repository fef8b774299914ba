/** Checks access rules: that their paths lead to resources of the app, and that each step has an index. */
import { CALLER, type Condition, isPath } from '@resource-api/api/rules'
import { isExisting } from '@resource-api/database/key'
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import { hasIndex, listIndexes } from './indexes.ts'
import { quoteAll } from './names.ts'

const MAX_STEPS = 3

/** The operations that may be open to requests without credentials. */
const OPEN_OPERATIONS = ['list', 'read', 'create']

type ByTable = ReadonlyMap<PgTable, ResourceDefinition>

/** Returns the mistakes in one path. */
function* findMistakes(
  definition: ResourceDefinition,
  path: string,
  wanted: Condition[string],
  byTable: ByTable,
): Generator<string> {
  const steps = path.split('.')
  const column = steps.pop() ?? ''
  if (steps.length > MAX_STEPS) yield `has more than ${MAX_STEPS} relations`
  const needed: [table: PgTable, column: string][] = []
  const isCaller = wanted === CALLER
  let source = definition
  for (const step of steps) {
    const relation = source.relations[step]
    const to = relation && byTable.get(relation.to)
    if (!relation || !to) {
      const known = Object.entries(source.relations).filter(([, each]) => byTable.has(each.to))
      const names = quoteAll(known.map(([name]) => name))
      yield `names "${step}", which is no relation of ${source.name}; there are ${names}`
      return
    }
    const { local, foreign, through } = relation
    if (through) needed.push([through.table, through.local.name])
    needed.push([relation.to, foreign])
    // Lists begin with the caller, and follow the path to the rows. Under a parent, they begin with the parent.
    if (isCaller && through) needed.push([through.table, through.foreign.name])
    if (isCaller && !(source === definition && definition.parent)) needed.push([source.table, local])
    source = to
  }
  if (isCaller) needed.push([source.table, column])
  for (const [table, name] of needed)
    if (!byTable.get(table)?.isView && !isExisting(table) && !hasIndex(listIndexes(table), [name]))
      yield `needs an index of ${getTableName(table)} that begins with "${name}"`
}

/** @param byTable all definitions, with the inverses of their relations */
export function* findPathMistakes(definition: ResourceDefinition, byTable: ByTable): Generator<string> {
  const { access, operations, relations } = definition
  const ofOperations = Object.entries(operations).map(([name, own]) => [name, own.access] as const)
  const rules = [...Object.entries(access), ...ofOperations].flatMap(([verb, byRole]) =>
    Object.entries(byRole).map(([role, rule]) => ({ verb, role, rule })),
  )
  for (const { verb, role, rule } of rules) {
    const part = `access to ${verb} of ${role}`
    const conditions = typeof rule === 'boolean' ? [] : rule.flatMap((each) => Object.entries(each))
    if (role === 'anonymous' && !OPEN_OPERATIONS.includes(verb))
      yield `${part} is not possible: without credentials, callers can only ${OPEN_OPERATIONS.join(', ')}`
    else if (role === 'anonymous' && conditions.some(([, wanted]) => wanted === CALLER))
      yield `${part} cannot name the caller: a request without credentials has none`
    for (const [path, wanted] of conditions.filter(([name]) => isPath(name))) {
      for (const mistake of findMistakes(definition, path, wanted, byTable))
        yield `${part}: "${path}" ${mistake}`
      const first = relations[path.slice(0, path.indexOf('.'))]
      if (verb === 'create' && first?.local === 'id')
        yield `${part}: "${path}" begins with rows that refer to the new one, of which there are none`
    }
  }
}
