/**
 * Decides which events a caller may read: those whose data the read rule of the resource permits, with all its conditions, if
 * the credential may read the resource.
 */
import { hasScope } from '@resource-api/api/access'
import type { Actor } from '@resource-api/api/actor'
import { CALLER, type Condition, isPath, type Rule } from '@resource-api/api/rules'
import { getRowParts, hasUuid } from '@resource-api/database/key'
import type { Role } from '@resource-api/database/roles'
import { events, getColumnType } from '@resource-api/database/tables'
import {
  buildPathConditions,
  findCallerKeys,
  findOwnerColumn,
  listRuleColumns,
  listRules,
  type Resource,
  type RuleScope,
} from '@resource-api/resources/internal'
import { and, or, type SQL, type SQLWrapper, sql } from 'drizzle-orm'

/** The parts of a resource that the access to its events depends on. */
export type RecordedResource = Pick<
  Resource,
  'name' | 'table' | 'schemas' | 'access' | 'operations' | 'bearerOnly' | 'relations' | 'columns'
>

type RuledResource = Pick<RecordedResource, 'access' | 'operations'>

/** The rule of each resource type whose events may be read, over the columns of the resource. */
export type ReadableRules = ReadonlyMap<string, Rule>

/** Returns the columns that the rules for members compare with their id, whatever the operation. */
function listOwnColumns(resource: RuledResource): string[] {
  const conditions = listRules(resource).flatMap(({ member }) => (typeof member === 'object' ? member : []))
  const own = conditions.flatMap((each) => Object.keys(each).filter((column) => each[column] === CALLER))
  return [...new Set(own)]
}

/** Returns the part of the read rule for rows that belong to the member: those with their id in one of the columns. */
function getMemberRule(resource: RuledResource): Rule {
  const { member = false } = resource.access.read ?? {}
  if (member === false) return false
  const conditions: readonly Condition[] = member === true ? [{}] : member
  const isEnough = (column: string) =>
    conditions.some((each) => each[column] === CALLER && Object.keys(each).length === 1)
  const columns = listOwnColumns(resource).filter((column) => !isEnough(column))
  return conditions.flatMap((condition) => {
    if (Object.values(condition).includes(CALLER)) return [condition]
    const others = columns.filter((column) => !(column in condition))
    return others.map((column) => ({ ...condition, [column]: CALLER }))
  })
}

/** Returns the rules for a role, without regard to a credential. Members read only events of resources that are theirs. */
export function getRoleRules(resources: readonly RecordedResource[], role: Role): ReadableRules {
  const rules = resources.map((resource) => {
    const rule = role === 'member' ? getMemberRule(resource) : (resource.access.read?.[role] ?? false)
    return [resource.name, rule] as const
  })
  return new Map(rules.filter(([, rule]) => rule !== false))
}

/** Returns the rules for a caller: those of the role, for resources that the credential may read. */
export function getReadableRules(resources: readonly RecordedResource[], actor: Actor): ReadableRules {
  if (actor.role === 'anonymous') return new Map()
  const readable = resources.filter(({ name, bearerOnly }) =>
    bearerOnly ? actor.credential !== 'api_key' : hasScope(actor, `${name}:read`),
  )
  return getRoleRules(readable, actor.role)
}

/** The types of columns whose JSON in an event is the value in a row. */
const COMPARABLE_TYPES = /^(?:uuid|text|varchar|boolean|bigint|integer|smallint)\b/

/**
 * Checks that the data of events decides the read rules.
 * @throws Error with all columns that it lacks, one on each line
 */
export function ensureDecidable(resources: readonly RecordedResource[]): void {
  const mistakes = resources.flatMap((resource) => {
    const { name, columns, schemas, access } = resource
    const isComparable = (column: string) =>
      column in schemas.read.properties && COMPARABLE_TYPES.test(columns[column]?.getSQLType() ?? '')
    const rules = [...Object.values(access.read ?? {}), getMemberRule(resource)]
    const used = new Set(rules.flatMap((rule) => listRuleColumns(resource, rule)))
    const compared = [...used].filter((column) => !isComparable(column))
    return compared.map(
      (column) => `${name}: access to read compares "${column}", which its events lack or write differently`,
    )
  })
  if (mistakes.length > 0) {
    const remedy = 'Show the column in the schema, or set isRecorded to false'
    throw new Error(`Events cannot be checked by the read rules. ${remedy}:\n${mistakes.join('\n')}`)
  }
}

const getType = ({ columns }: RecordedResource, name: string): SQL => {
  const column = columns[name]
  if (!column) throw new Error(`There is no column ${name}`)
  return sql.raw(getColumnType(column))
}

/** Writes a text that a definition contains. No text of a client gets here. */
const toLiteral = (text: string) => sql.raw(`'${text.replaceAll("'", "''")}'`)

/** Events that a caller may read. */
export interface ReadableEvents {
  /** On rows of `events`. */
  condition: SQL
  /** A query for the keys in the column `key`, with one of which, `own.key`, the condition compares. */
  keys?: SQL
}

interface ReadableOptions {
  /** The id of the caller: a parameter, or a column. */
  caller: SQLWrapper
  /** Whether the events of related resources are found by keys. Without, each event is checked. */
  usesKeys?: boolean
}

/**
 * Builds conditions on rows of `events`, of which an event that a caller may read meets at least one. Each compares at most
 * one column with the caller or a key first, so that one index has its events in the order of the feed: mostly that of
 * `owner_id`.
 * @param resources all resources that the rules are about
 */
export function buildReadableConditions(
  resources: readonly RecordedResource[],
  rules: ReadableRules,
  { caller, usesKeys = false }: ReadableOptions,
): ReadableEvents[] {
  const compare = (column: string, wanted: Condition[string], owner: string | undefined) => {
    if (wanted !== CALLER)
      return sql`(${events.columns} -> ${toLiteral(column)})::jsonb = ${toLiteral(JSON.stringify(wanted))}::jsonb`
    return column === owner
      ? sql`${events.owner_id} = ${caller}::uuid`
      : sql`${events.columns} ->> ${toLiteral(column)} = ${caller}::text`
  }
  /** By the column that is compared with the caller, or without one: what else holds for which resource types. */
  const groups = new Map<string, { comparison: SQL | undefined; others: SQL[] }>()
  const byKeys: ReadableEvents[] = []
  for (const resource of resources) {
    const rule = rules.get(resource.name) ?? false
    const owner = findOwnerColumn(resource)
    const scope: RuleScope = {
      getLocal: (name) => sql`(${events.columns} ->> ${toLiteral(name)})::${getType(resource, name)}`,
      getCaller: (column) => sql`${caller}::${sql.raw(getColumnType(column))}`,
    }
    const isOfType = sql`${events.resource_type} = ${toLiteral(resource.name)}`
    const buildOthers = (condition: Condition, leading?: string) => {
      const others = Object.entries<Condition[string]>(condition)
        .filter(([name]) => name !== leading && !isPath(name))
        .map((each) => compare(...each, owner))
      return and(isOfType, ...others, ...buildPathConditions(resource, condition, scope)) ?? isOfType
    }
    for (const condition of typeof rule === 'object' ? rule : rule ? [{}] : []) {
      const compared = Object.entries<Condition[string]>(condition).filter(([name]) => !isPath(name))
      const leading =
        compared.find(([column, wanted]) => wanted === CALLER && column === owner) ??
        compared.find(([, wanted]) => wanted === CALLER)
      const found = usesKeys && !leading ? findCallerKeys(resource, condition, scope) : undefined
      const isId = found?.local === 'id' && hasUuid(getRowParts(resource.table).key)
      if (found && (found.local === owner || isId)) {
        const key = isId ? events.resource_id : events.owner_id
        byKeys.push({ keys: found.keys, condition: sql`${key} = own.key and ${buildOthers(found.others)}` })
        continue
      }
      const key = leading ? (leading[0] === owner ? 'owner_id' : `columns ${leading[0]}`) : ''
      const group = groups.get(key) ?? { comparison: leading && compare(...leading, owner), others: [] }
      groups.set(key, group)
      group.others.push(buildOthers(condition, leading?.[0]))
    }
  }
  const compared = [...groups.values()].map(({ comparison, others }) => ({
    condition: sql`${and(comparison, or(...others))}`,
  }))
  return [...compared, ...byKeys]
}

/** Builds the condition on rows of `events` that a caller may read. */
export const buildReadableCondition = (
  resources: readonly RecordedResource[],
  rules: ReadableRules,
  caller: SQLWrapper,
): SQL =>
  or(...buildReadableConditions(resources, rules, { caller }).map(({ condition }) => condition)) ?? sql`false`
