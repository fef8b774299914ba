/** Lists what a 409 of a route of a resource says, for the documents. */
import type { Conflict } from '@resource-api/api/documents'
import type { Verb } from '@resource-api/api/rules'
import type { FieldMappings } from '@resource-api/api/versions'
import type { Resource } from './definition/resource.ts'
import { describeTransition } from './operations/compute-change.ts'
import { BUSY } from './operations/row-locks.ts'
import { getFieldNames, renameViolations } from './request/version-fields.ts'
import { describeReferring, describeTaken, findReferring, getUniqueColumns } from './sql/constraint-errors.ts'

/** A unique value of a body that another row has. */
function listTaken({ immutable = [], schemas, table }: Resource, verb: Verb): Conflict[] {
  const fields = Object.keys((verb === 'create' ? schemas.create : schemas.change).properties)
  const isSent = (name: string) => fields.includes(name) && (verb === 'create' || !immutable.includes(name))
  const unique = [...getUniqueColumns(table).values()].find((columns) => columns.some(isSent))
  const shown = unique?.filter((name) => name in schemas.read.properties) ?? []
  return shown.length > 0 ? [{ name: 'taken', ...describeTaken(shown) }] : []
}

/** A change to a state that may not follow the current one. */
const listTransitions = ({ transitions = {} }: Resource): Conflict[] =>
  Object.entries(transitions).flatMap(([field, states]) => {
    const names = Object.keys(states)
    const moves = names.flatMap((from) => names.map((to) => ({ from, to, allowed: states[from] ?? [] })))
    const move = moves.find(({ from, to, allowed }) => from !== to && !allowed.includes(to))
    return move ? [{ name: 'transition', ...describeTransition(field, move) }] : []
  })

/** Another row that refers to the row which is to be deleted. */
function listReferring({ resources, table }: Resource): Conflict[] {
  const referring = findReferring(table, [...resources.values()])
  return referring === undefined ? [] : [{ name: 'referred', message: describeReferring(referring) }]
}

function listOwnConflicts(resource: Resource, verb: Verb): Conflict[] {
  if (verb === 'list' || verb === 'read') return []
  const taken = verb === 'remove' ? [] : listTaken(resource, verb)
  if (verb === 'create') return taken
  // A caller who waits too long for a row of their own, which another request has locked.
  const hasOwnRows =
    resource.me || Object.values(resource.access[verb] ?? {}).some((rule) => Array.isArray(rule))
  const others = verb === 'remove' ? listReferring(resource) : listTransitions(resource)
  return [...taken, ...others, ...(hasOwnRows ? [{ name: 'busy', message: BUSY }] : [])]
}

/**
 * Returns the conflicts that the definition of a resource makes possible, without those of its code.
 * @param mappings those of the version
 */
export function listConflicts(resource: Resource, verb: Verb, mappings: FieldMappings): Conflict[] {
  const names = getFieldNames(resource, mappings)
  return listOwnConflicts(resource, verb).map(({ message, violations, ...conflict }) => ({
    ...conflict,
    ...(violations ? renameViolations({ message, violations }, names) : { message }),
  }))
}
