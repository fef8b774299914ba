/**
 * Decides which events a caller may read: those whose data the read rule of the resource permits, with all its conditions, if
 * the credential may read the resource.
 */
import { and, getTableColumns, or, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import { events } from '../../drizzle/event-tables.ts'
import type { Role } from '../../schemas/roles.ts'
import {
  type Access,
  type Actor,
  allows,
  CALLER,
  type Condition,
  getRuleFields,
  hasScope,
  type Rule,
} from '../access/index.ts'
import type { ResourceDefinition } from '../collection/definition.ts'
import { findOwnerColumn } from '../outbox/recorder.ts'
import type { RepresentedEvent } from './represent-event.ts'

/** The parts of a definition that the access to its events depends on. */
export type RecordedResource = Pick<
  ResourceDefinition,
  'name' | 'table' | 'schemas' | 'access' | 'bearerOnly'
>

/** The rule of each resource type whose events may be read, over the columns of the resource. */
export type ReadableRules = ReadonlyMap<string, Rule>

/** Returns the columns that the rules for members compare with their id, whatever the verb. */
function listOwnColumns(access: Access): string[] {
  const conditions = Object.values(access).flatMap(({ member }) => (typeof member === 'object' ? member : []))
  const own = conditions.flatMap((each) => Object.keys(each).filter((column) => each[column] === CALLER))
  return [...new Set(own)]
}

/** Returns the part of the read rule for rows that belong to the member: those with their id in one of the columns. */
function getMemberRule(access: Access): Rule {
  const { member = false } = access.read ?? {}
  if (member === false) return false
  const conditions: readonly Condition[] = member === true ? [{}] : member
  const isEnough = (column: string) =>
    conditions.some((each) => each[column] === CALLER && Object.keys(each).length === 1)
  const columns = listOwnColumns(access).filter((column) => !isEnough(column))
  return conditions.flatMap((condition) => {
    if (Object.values(condition).includes(CALLER)) return [condition]
    const others = columns.filter((column) => !(column in condition))
    return others.map((column) => ({ ...condition, [column]: CALLER }))
  })
}

/** Returns the rules for a role, without regard to a credential. Members read only events of resources that are theirs. */
export function getRoleRules(resources: readonly RecordedResource[], role: Role): ReadableRules {
  const rules = resources.map(({ name, access }) => {
    const rule = role === 'member' ? getMemberRule(access) : (access.read?.[role] ?? false)
    return [name, rule] as const
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

const getEventRule = (rules: ReadableRules, { resource_type }: Pick<RepresentedEvent, 'resource_type'>) =>
  rules.get(resource_type) ?? false

/** Returns whether a caller may read an event: the resource after the change or, if it was deleted, as it was last. */
export const canRead = (
  rules: ReadableRules,
  event: Pick<RepresentedEvent, 'resource_type' | 'columns'>,
  actor: Actor,
): boolean => allows(getEventRule(rules, event), event.columns, actor)

/** Returns the event without the former values, if the caller might not read the resource before the change. */
export const hideUnreadable = <E extends Pick<RepresentedEvent, 'resource_type' | 'columns' | 'previous'>>(
  rules: ReadableRules,
  event: E,
  actor: Actor,
): E =>
  event.previous === null ||
  allows(getEventRule(rules, event), { ...event.columns, ...event.previous }, actor)
    ? event
    : { ...event, previous: {} }

/** The types of columns whose JSON in an event is the value in a row. */
const COMPARABLE_TYPES = /^(?:uuid|text|varchar|boolean|bigint|integer|smallint)\b/

/**
 * Checks that the data of events decides the read rules.
 * @throws Error with all columns that it lacks, one on each line
 */
export function ensureDecidable(resources: readonly RecordedResource[]): void {
  const mistakes = resources.flatMap(({ name, table, schemas, access }) => {
    const columns = getTableColumns(table)
    const isComparable = (column: string) =>
      column in schemas.read.properties && COMPARABLE_TYPES.test(columns[column]?.getSQLType() ?? '')
    const rules = [...Object.values(access.read ?? {}), getMemberRule(access)]
    const compared = [...new Set(rules.flatMap(getRuleFields))].filter((column) => !isComparable(column))
    return compared.map(
      (column) => `${name}: access to read compares "${column}", which its events lack or write differently`,
    )
  })
  if (mistakes.length > 0) {
    const remedy = 'Show the column in the schema, or set isRecorded to false'
    throw new Error(`Events cannot be checked by the read rules. ${remedy}:\n${mistakes.join('\n')}`)
  }
}

/** Writes a text that a definition contains. No text of a client gets here. */
const toLiteral = (text: string) => sql.raw(`'${text.replaceAll("'", "''")}'`)

/**
 * Builds conditions on rows of `events`, of which an event that a caller may read meets at least one. Each compares at most
 * one column with the caller first, so that one index has its events in the order of the feed: mostly that of `owner_id`.
 * @param resources all resources that the rules are about
 * @param caller the id of the caller: a parameter, or a column
 */
export function buildReadableConditions(
  resources: readonly RecordedResource[],
  rules: ReadableRules,
  caller: SQLWrapper,
): SQL[] {
  const compare = (column: string, wanted: Condition[string], owner: string | undefined) => {
    if (wanted !== CALLER)
      return sql`(${events.columns} -> ${toLiteral(column)})::jsonb = ${toLiteral(JSON.stringify(wanted))}::jsonb`
    return column === owner
      ? sql`${events.owner_id} = ${caller}::uuid`
      : sql`${events.columns} ->> ${toLiteral(column)} = ${caller}::text`
  }
  /** By the column that is compared with the caller, or without one: what else holds for which resource types. */
  const groups = new Map<string, { comparison: SQL | undefined; others: SQL[] }>()
  for (const resource of resources) {
    const rule = rules.get(resource.name) ?? false
    const owner = findOwnerColumn(resource)
    for (const condition of typeof rule === 'object' ? rule : rule ? [{}] : []) {
      const compared = Object.entries<Condition[string]>(condition)
      const leading =
        compared.find(([column, wanted]) => wanted === CALLER && column === owner) ??
        compared.find(([, wanted]) => wanted === CALLER)
      const key = leading ? (leading[0] === owner ? 'owner_id' : `columns ${leading[0]}`) : ''
      const group = groups.get(key) ?? { comparison: leading && compare(...leading, owner), others: [] }
      groups.set(key, group)
      const isOfType = sql`${events.resource_type} = ${toLiteral(resource.name)}`
      const others = compared.filter((each) => each !== leading).map((each) => compare(...each, owner))
      group.others.push(and(isOfType, ...others) ?? isOfType)
    }
  }
  return [...groups.values()].map(({ comparison, others }) => sql`${and(comparison, or(...others))}`)
}

/** Builds the condition on rows of `events` that a caller may read, with the parameters of `buildReadableConditions`. */
export const buildReadableCondition = (...options: Parameters<typeof buildReadableConditions>): SQL =>
  or(...buildReadableConditions(...options)) ?? sql`false`
