/** Reads which roles read and write a field of a new resource: `cost:read=admin,manager:write=admin`. */
import type { Role } from '../../packages/database/src/application.ts'
import { roles } from '../../packages/database/src/roles.ts'
import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { type Field, split } from './fields.ts'
import type { ResourcePlan, Restriction } from './resource-plan.ts'

const FORM = 'write FIELD:read=ROLES:write=ROLES, as in cost:read=admin,manager:write=admin'

type Writers = Pick<ResourcePlan, 'owner' | 'isOwnerWriting' | 'ownerPaths'>

/** The roles that create rows. */
const listCreators = ({ owner, isOwnerWriting, ownerPaths }: Writers): Role[] =>
  (owner && isOwnerWriting) || ownerPaths.some(({ isWriting }) => isWriting)
    ? ['admin', 'manager', 'member']
    : ['admin', 'manager']

type RestrictedPlan = Pick<ResourcePlan, 'restrictions'>

const findRestriction = ({ restrictions }: RestrictedPlan, name: string): Restriction | undefined =>
  restrictions.find(({ field }) => field === name)

/** Returns whether a role reads a field. */
export const readsField = (plan: RestrictedPlan, name: string, role: Role): boolean =>
  findRestriction(plan, name)?.read?.includes(role) ?? true

/** Returns whether a role writes a field. */
export function writesField(plan: RestrictedPlan, name: string, role: Role): boolean {
  const { read, write = read } = findRestriction(plan, name) ?? {}
  return write?.includes(role) ?? true
}

/** Reads one restriction, with the names of its roles not yet checked. */
function readRestriction(text: string, report: (mistake: string) => void): Restriction | undefined {
  const [name = '', ...parts] = text.split(':').map((part) => part.trim())
  const lists = new Map<string, Role[]>()
  for (const part of parts) {
    const [key = '', list, another] = part.split('=').map((each) => each.trim())
    if (
      (key !== 'read' && key !== 'write') ||
      list === undefined ||
      another !== undefined ||
      lists.has(key)
    ) {
      report(`"${text}" is no restriction; ${FORM}`)
      return undefined
    }
    const named = split(list, ',')
    const known = roles.filter((role) => named.includes(role))
    const unknown = named.filter((each) => !roles.some((role) => role === each))
    if (unknown.length > 0 || named.length === 0) {
      report(`${name}: "${unknown.join('", "')}" is not possible; choose from ${roles.join(', ')}`)
      return undefined
    }
    lists.set(key, known)
  }
  if (lists.size > 0) return { field: name, read: lists.get('read'), write: lists.get('write') }
  report(`"${text}" is no restriction; ${FORM}`)
  return undefined
}

interface Context extends Writers {
  fields: readonly Field[]
  /** The names of all fields, those with mistakes included. */
  known: readonly string[]
  /** The names in `--unique`. */
  unique: readonly string[]
  /** The fields that decide what members read. */
  compared: readonly string[]
}

/** @throws UsageError with all mistakes */
export function readRestrictions(
  text: string,
  { fields, known, unique, compared, ...rest }: Context,
): Restriction[] {
  const mistakes: string[] = []
  const report = (mistake: string) => void mistakes.push(mistake)
  const possible = fields.filter(({ name }) => name !== 'status')
  const read = split(text, ';').flatMap((each) => readRestriction(each, report) ?? [])
  const names = read.map(({ field }) => field)
  for (const name of new Set(names.filter((each, i) => names.indexOf(each) < i)))
    report(`${name} stands twice`)
  const restrictions = read.filter((restriction) => {
    const { field: name, read: readers, write: writers } = restriction
    const field = possible.find((each) => each.name === name)
    if (!field) {
      // The mistake in such a field is reported already.
      if (!known.includes(name) || name === 'status' || fields.length === known.length)
        report(
          `"${name}" is not possible; choose from ${possible.map((each) => each.name).join(', ') || 'none'}`,
        )
      return false
    }
    const plan = { restrictions: [restriction] }
    if (readers && !readers.includes('admin')) report(`${name}: admins read every field; add admin to read`)
    const blind = writers?.filter((role) => !readsField(plan, name, role)) ?? []
    if (blind.length > 0) report(`${name}: ${blind.join(', ')} would write but not read it`)
    const creators = listCreators(rest).filter((role) => !writesField(plan, name, role))
    if (creators.length > 0 && field.default === undefined && !field.isNullable)
      report(
        `${name}: ${creators.join(' and ')} may create rows but not write it; give it a default, or make it nullable with "?"`,
      )
    if (readers && field.type === 'ref')
      report(`${name}: a reference cannot be hidden; write only write=ROLES`)
    if (readers && unique.length > 1 && unique.includes(name))
      report(`${name}: it cannot be hidden, since --unique compares it with other fields`)
    if (readers && !readers.includes('member') && compared.includes(name))
      report(`${name}: it decides which rows members read, which would show it`)
    return true
  })
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return restrictions
}
