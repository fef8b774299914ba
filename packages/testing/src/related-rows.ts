/** Decides which rows a cell of the matrix allows, also by relations: row by row, without the SQL of the engine. */
import { CALLER } from '@resource-api/api/rules'
import type { Database } from '@resource-api/database'
import type { ResourceDefinition } from '@resource-api/resources/internal'
import { getTableName } from 'drizzle-orm'
import {
  type Cell,
  type Definitions,
  getComparableValues,
  getComparison,
  getConditions,
} from './definitions.ts'

type DatabaseRow = Record<string, unknown>

/** A part of a condition: what the column at the end of a path of relations has. */
interface Part {
  path: readonly string[]
  /** Undefined for the id of the caller. */
  value?: string
}

function readPart(text: string): Part {
  const [, owner] = /^own by (.+)$/.exec(text) ?? []
  if (owner !== undefined) return { path: owner.split('.') }
  const [path, value] = getComparison(text) ?? ['own', 'true']
  return { path: path.split('.'), value }
}

const isMet = (row: DatabaseRow, column: string, { value }: Part, caller: string) => {
  if (value === 'not null') return row[column] !== null
  return value === undefined ? row[column] === caller : String(row[column]) === value
}

export function createRowRules(database: Database, { definitions }: Definitions) {
  const findDefinition = (table: ResourceDefinition['table']) =>
    definitions.find((definition) => definition.table === table)

  /** Returns the definition of a relation's rows, and those of a row. */
  async function readRelated(definition: ResourceDefinition, name: string, row: DatabaseRow) {
    const relation = definition.relations[name]
    const target = relation && findDefinition(relation.to)
    if (!relation || !target) throw new Error(`${definition.name} has no relation "${name}"`)
    const { local, foreign, through } = relation
    const joined = through
      ? `in (select "${through.foreign.name}" from "${getTableName(through.table)}" where "${through.local.name}" = $1)`
      : '= $1'
    const key = row[local]
    const rows =
      key === null
        ? []
        : await database.run(`select * from "${getTableName(target.table)}" where "${foreign}" ${joined}`, [
            String(key),
          ])
    return { target, rows }
  }

  /** Returns whether a row meets all parts: those of one relation by one and the same related row. */
  async function meets(
    definition: ResourceDefinition,
    row: DatabaseRow,
    parts: readonly Part[],
    caller: string,
  ): Promise<boolean> {
    const relations = new Map<string, Part[]>()
    for (const part of parts) {
      const [first = '', ...rest] = part.path
      if (rest.length > 0) relations.set(first, [...(relations.get(first) ?? []), { ...part, path: rest }])
      else if (!isMet(row, first, part, caller)) return false
    }
    for (const [name, rest] of relations) {
      const { target, rows } = await readRelated(definition, name, row)
      const found = await Promise.all(rows.map((each) => meets(target, each, rest, caller)))
      if (!found.includes(true)) return false
    }
    return true
  }

  return {
    /** Returns the rows that a cell allows a caller. */
    async filterAllowed<R extends DatabaseRow>(
      definition: ResourceDefinition,
      cell: Cell,
      rows: readonly R[],
      caller: string,
    ): Promise<R[]> {
      if (cell === 'all') return [...rows]
      const conditions = getConditions(cell).map((parts) => parts.map(readPart))
      const allowed = await Promise.all(
        rows.map((row) => Promise.all(conditions.map((parts) => meets(definition, row, parts, caller)))),
      )
      return rows.filter((_, i) => allowed[i]?.includes(true))
    },

    /** Returns the columns of related rows that the rules of a list compare with constants, and the values of each. */
    listRelatedColumns(definition: ResourceDefinition) {
      const rules = Object.values(definition.access.list ?? {})
      const conditions = rules.flatMap((rule) => (typeof rule === 'boolean' ? [] : rule))
      const paths = conditions.flatMap((condition) =>
        Object.keys(condition).filter((path) => path.includes('.') && condition[path] !== CALLER),
      )
      return [...new Set(paths)].flatMap((path) => {
        const steps = path.split('.')
        const column = steps.pop() ?? ''
        let target: ResourceDefinition | undefined = definition
        for (const step of steps) {
          const to: ResourceDefinition['table'] | undefined = target?.relations[step]?.to
          target = to && findDefinition(to)
        }
        // A user who is changed may be the caller.
        if (!target || target.name === 'users') return []
        const values = getComparableValues(target, column)
        return values.length > 0 ? [{ table: getTableName(target.table), column, values }] : []
      })
    },
  }
}
