/** The access of a collection as text: for each operation, the rows that each role may access. */
import { type Guard, type RouteAccess, toGuard } from '@resource-api/api/access'
import type { CallerRole } from '@resource-api/api/actor'
import { CALLER, type Condition, formatWanted, type RoleRules, type Rule } from '@resource-api/api/rules'
import { toEveryRole } from '@resource-api/database'
import { RESTORES, type ResourceDefinition } from './definition.ts'
import { callerRoles } from './fields.ts'

/** The text of each role: `all`, or conditions such as `own or published`. A role without access is absent. */
export type Cells = Readonly<Partial<Record<CallerRole, string>>>

/** What the texts depend on, which the compiled form of a definition has too. */
type AccessDefinition = Pick<ResourceDefinition, 'access' | 'isRestorable' | 'name' | 'operations' | 'verbs'>

/** The cell of sign-up, which ALLOW_SIGNUP opens. */
export const SIGN_UP = 'sign-up'

/** The field that holds the owner of a row. */
const getOwnerField = (name: string) => (name === 'users' ? 'id' : 'user_id')

/** `own` for rows of the caller, a value alone for a status, otherwise the field and the value. */
function describeCondition(condition: Condition, ownerField: string): string {
  const entries = Object.entries(condition)
  const owners = entries.filter(([, value]) => value === CALLER)
  const others = entries.filter(([, value]) => value !== CALLER)
  return [
    ...owners.map(([field]) => (field === ownerField ? 'own' : `own by ${field}`)).sort(),
    ...others
      .map(([field, value]) => (field === 'status' ? value : `${field} ${formatWanted(value)}`))
      .sort(),
  ].join(' and ')
}

/** Returns the text of a cell; undefined if the rule permits nothing. */
function describeCell(rule: Rule | undefined, ownerField: string): string | undefined {
  if (rule === undefined || rule === false) return undefined
  if (rule === true) return 'all'
  const texts = rule.map((condition) => describeCondition(condition, ownerField))
  return [...new Set(texts)].sort().join(' or ')
}

/** Returns the cells of rules. @param name that of the collection, whose rows have an owner */
export function describeCells(rules: RoleRules | undefined, name: string): Cells {
  const cells = callerRoles.flatMap((role) => {
    const text = describeCell(rules?.[role], getOwnerField(name))
    return text === undefined ? [] : [[role, text] as const]
  })
  return Object.fromEntries(cells)
}

/** Returns the cells of the operations of a collection, of its restores and of its actions. */
export function describeOperations({
  access,
  isRestorable,
  name,
  operations,
  verbs,
}: AccessDefinition): Record<string, Cells> {
  const described = verbs.map((verb) => [verb, describeCells(access[verb], name)] as const)
  const { anonymous } = access.create ?? {}
  const { [RESTORES]: restores, ...actions } = operations
  return {
    ...Object.fromEntries(described),
    ...(anonymous && { create: { ...describeCells(access.create, name), anonymous: SIGN_UP } }),
    ...(isRestorable && { [RESTORES]: describeCells(restores?.access, name) }),
    ...Object.fromEntries(
      Object.entries(actions).map(([action, of]) => [action, describeCells(of.access, name)]),
    ),
  }
}

/** Returns the rules of a route of one's own. */
function toRouteRules(guards: ReadonlyMap<string, Guard>, access: RouteAccess): RoleRules {
  if (access === 'public') return { ...toEveryRole(true), anonymous: true }
  if (access === 'authenticated') return toEveryRole(true)
  // Only the routes of the collection itself are open.
  return { ...toGuard(guards, access)?.rules, anonymous: false }
}

/** Returns the cells of a route of one's own. */
export function describeRouteAccess(guards: ReadonlyMap<string, Guard>, access: RouteAccess): Cells {
  const [collection = ''] = typeof access === 'string' ? access.split(':') : []
  return describeCells(toRouteRules(guards, access), collection)
}
