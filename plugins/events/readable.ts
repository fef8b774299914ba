/** Decides which events a caller may read: by the role, by the owner of the resource, and by the credential. */
import { getTableName } from 'drizzle-orm'
import {
  type Actor,
  allows,
  CALLER,
  type Condition,
  hasScope,
  type Role,
  type Rule,
} from '../access/index.ts'
import type { ResourceDefinition } from '../collection/definition.ts'
import { createRecorders } from '../outbox/recorder.ts'

/** The parts of a definition that the access to its events depends on. */
export type RecordedResource = Pick<
  ResourceDefinition,
  'name' | 'table' | 'schemas' | 'access' | 'bearerOnly'
>

/** The rule of each resource type whose events may be read, over the columns of the resource. */
export type ReadableRules = ReadonlyMap<string, Rule>

const findOwnerColumn = (resource: RecordedResource): string | undefined =>
  createRecorders([resource]).get(getTableName(resource.table))?.ownerColumn

/** Returns the rule for the events of a resource: members read only those of resources that are theirs. */
function getRoleRule(resource: RecordedResource, role: Role): Rule {
  const rule = resource.access.read?.[role] ?? false
  if (role !== 'member' || rule === false) return rule
  const ownerColumn = findOwnerColumn(resource)
  return ownerColumn !== undefined && [{ [ownerColumn]: CALLER }]
}

/** Returns the rules for a role, without regard to a credential. */
export function getRoleRules(resources: readonly RecordedResource[], role: Role): ReadableRules {
  const rules = resources.map((resource) => [resource.name, getRoleRule(resource, role)] as const)
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

/** Returns whether a caller may read an event. */
export const canRead = (
  rules: ReadableRules,
  event: Readonly<{ resource_type: string; columns: Readonly<Record<string, unknown>> }>,
  actor: Actor,
): boolean => allows(rules.get(event.resource_type) ?? false, event.columns, actor)

/** Quotes a text that a definition contains. No text of a client gets here. */
const quote = (text: string) => `'${text.replaceAll("'", "''")}'`

/**
 * @param owner the column with the id of the owner, whose value events have in a column of their own
 * @param getCaller as for `buildReadableCondition`
 */
function buildCondition(condition: Condition, owner: string | undefined, getCaller: () => string): string {
  const parts = Object.entries(condition).map(([column, wanted]) => {
    if (wanted !== CALLER)
      return `(events.columns -> ${quote(column)})::jsonb = ${quote(JSON.stringify(wanted))}::jsonb`
    return column === owner
      ? `events.owner_id = ${getCaller()}::uuid`
      : `events.columns ->> ${quote(column)} = ${getCaller()}::text`
  })
  return parts.join(' and ')
}

/**
 * Builds the condition on rows of `events` that a caller may read.
 * @param resources all resources that the rules are about
 * @param getCaller returns an SQL expression with the id of the caller, such as a column. Called for each use, and not for
 * rules that do not compare it, so that it can add a parameter
 */
export function buildReadableCondition(
  resources: readonly RecordedResource[],
  rules: ReadableRules,
  getCaller: () => string,
): string {
  /** The resource types of each condition. */
  const types = new Map<string, string[]>()
  for (const resource of resources) {
    const rule = rules.get(resource.name) ?? false
    if (rule === false) continue
    const owner = findOwnerColumn(resource)
    const text =
      rule === true ? '' : rule.map((each) => `(${buildCondition(each, owner, getCaller)})`).join(' or ')
    types.set(text, [...(types.get(text) ?? []), quote(resource.name)])
  }
  const conditions = [...types].map(([text, names]) => {
    const isOfType = `events.resource_type in (${names.join(', ')})`
    return text === '' ? isOfType : `${isOfType} and (${text})`
  })
  return conditions.length === 0 ? 'false' : `(${conditions.map((each) => `(${each})`).join(' or ')})`
}
