/** The tables of docs/permissions.md: for each resource and operation, the rows that each role may access. */
import type { Access, Condition, Rule, Verb } from '../plugins/access/index.ts'
import { CALLER, verbs } from '../plugins/access/index.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import { type Role, roles } from '../schemas/roles.ts'

/** The cells by operation and role; an operation that the resource does not have is absent. */
export type AccessTable = Partial<Record<Verb, Record<Role, string>>>

/** The field that holds the owner of a row. */
const getOwnerField = (name: string) => (name === 'users' ? 'id' : 'user_id')

/** `own` for rows of the caller, a value alone for a status, otherwise the field and the value. */
function describeCondition(condition: Condition, ownerField: string): string {
  const parts = Object.entries(condition).map(([field, value]) => {
    if (value === CALLER) return field === ownerField ? 'own' : `own by ${field}`
    return field === 'status' ? value : `${field} ${String(value)}`
  })
  return parts.sort().join(' and ')
}

/** Returns the text of a cell: `all`, `none`, or conditions such as `own or published`. */
function describeCell(rule: Rule | undefined, ownerField: string): string {
  if (rule === undefined || rule === false) return 'none'
  if (rule === true) return 'all'
  return rule
    .map((condition) => describeCondition(condition, ownerField))
    .sort()
    .join(' or ')
}

/** Returns the table of one resource. */
export function buildAccessTable({ name, access, verbs: own = verbs }: ResourceDefinition): AccessTable {
  const describe = (rules: Access[Verb], role: Role) => describeCell(rules?.[role], getOwnerField(name))
  return Object.fromEntries(
    own.map((verb) => [
      verb,
      Object.fromEntries(roles.map((role) => [role, describe(access[verb], role)])) as Record<Role, string>,
    ]),
  )
}

const formatRow = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** Returns the operations of a resource by the text of their cells, so that operations with the same access share a row. */
function groupVerbs(definition: ResourceDefinition): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const [verb, cells] of Object.entries(buildAccessTable(definition))) {
    const text = roles.map((role) => cells[role]).join(' | ')
    groups.set(text, [...(groups.get(text) ?? []), verb])
  }
  return groups
}

/** Returns a Markdown table of all resources, with a row for operations that have the same access. */
export function formatAccessTables(definitions: readonly ResourceDefinition[]): string {
  const head = ['Resource', 'Operation', ...roles]
  const rows = definitions.flatMap((definition) =>
    [...groupVerbs(definition)].map(([cells, own]) => [definition.name, own.join(', '), cells]),
  )
  return [head, head.map(() => '---'), ...rows].map(formatRow).join('\n')
}
