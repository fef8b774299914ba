/** Reads who may do what: `--owner`, `--visible` and `--restrict`. The compiler and the start check the paths of relations. */
import { roles } from '@resource-api/database/roles'
import { UsageError } from '../usage-error.ts'
import { checkFieldName } from './fields.ts'
import { split } from './names.ts'
import type { Condition, OwnerPath, Restriction } from './resource-plan.ts'
import { type Field, isSent } from './types.ts'

/** `user_id`, `user_id:reads`, `user_id:reads(status=issued,paid)`, `organization.memberships.user_id:writes(role=owner)` */
const OWNER = /^([a-z0-9_]+(?:\.[a-z0-9_]+){0,3})(?::(writes|reads)(?:\(([^()]*)\))?)?$/

const OWNER_FORM =
  'write COLUMN:writes, COLUMN:reads or COLUMN:reads(FIELD=VALUES), or RELATIONS.COLUMN:reads or RELATIONS.COLUMN:writes(FIELD=VALUES) with at most three relations'

interface OwnerAnswer {
  column: string | undefined
  isWriting: boolean
  /** Of `COLUMN:reads(...)`. */
  conditions: string | undefined
  paths: OwnerPath[]
}

/** Reads `FIELD=VALUE,VALUE; FIELD=VALUE` without knowing the fields. */
const readPairs = (text: string): Condition[] =>
  split(text, ';').flatMap((condition) => {
    const [, field, values] = /^(\w+)\s*=\s*([\w,\s]+)$/.exec(condition) ?? []
    if (field === undefined || values === undefined) throw new UsageError(`"${condition}" is no condition`)
    return split(values, ',').map((value) => ({ field, value }))
  })

/** @throws UsageError */
export function readOwner(text: string | undefined): OwnerAnswer {
  const answer: OwnerAnswer = { column: undefined, isWriting: true, conditions: undefined, paths: [] }
  for (const entry of split(text ?? '', ';')) {
    const [, path, access = 'writes', conditions] = OWNER.exec(entry) ?? []
    if (path === undefined) throw new UsageError(`"${entry}": ${OWNER_FORM}`)
    const isWriting = access === 'writes'
    if (path.includes('.')) answer.paths.push({ path, isWriting, conditions: readPairs(conditions ?? '') })
    else if (answer.column !== undefined)
      throw new UsageError(`write one column at most, not ${path} besides`)
    else if (isWriting && conditions !== undefined)
      throw new UsageError('conditions limit what owners read; write COLUMN:reads(...)')
    else {
      checkFieldName(path)
      if (!path.endsWith('_id')) throw new UsageError('the name of the column ends with _id, as in user_id')
      Object.assign(answer, { column: path, isWriting, conditions })
    }
  }
  return answer
}

const getValues = (field: Field): readonly string[] =>
  field.type === 'enum' ? field.values : field.type === 'boolean' ? ['true', 'false'] : []

/**
 * Reads conditions such as `status=issued,paid; is_open=true`.
 * @throws UsageError with all mistakes
 */
export function readConditions(text: string, fields: readonly Field[]): Condition[] {
  const possible = fields.filter((field) => getValues(field).length > 0)
  const mistakes: string[] = []
  const conditions = readPairs(text).map(({ field: name, value }) => {
    const field = possible.find((each) => each.name === name)
    const values = field ? getValues(field) : []
    if (!field)
      mistakes.push(
        `"${name}" is no status, enum or boolean (there is ${possible.map((each) => each.name).join(', ') || 'none'})`,
      )
    else if (!values.includes(String(value)))
      mistakes.push(`${name}: "${value}" is not possible; choose from ${values.join(', ')}`)
    return { field: name, value: field?.type === 'boolean' ? value === 'true' : value }
  })
  if (conditions.length === 0) mistakes.push('there is no condition; write FIELD=VALUES')
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return conditions
}

const RESTRICTION = /^(\w+)((?::(?:read|write)=[\w,\s]+)+)$/

/**
 * Reads `cost:read=admin,manager:write=admin; note:read=admin`.
 * @throws UsageError with all mistakes
 */
export function readRestrictions(
  text: string,
  fields: readonly Field[],
  creators: readonly string[],
): Restriction[] {
  const mistakes: string[] = []
  const restrictions = split(text, ';').flatMap((entry): Restriction[] => {
    const [, name = '', parts = ''] = RESTRICTION.exec(entry) ?? []
    const lists = new Map(
      split(parts, ':').map((part) => {
        const [kind = '', names = ''] = part.split('=')
        return [kind, split(names, ',')] as const
      }),
    )
    const field = fields.find((each) => each.name === name && name !== 'status')
    const [read, write] = [lists.get('read'), lists.get('write')]
    const unknown = [...(read ?? []), ...(write ?? [])].filter((each) => !roles.some((role) => role === each))
    const blind = (read && write?.filter((role) => !read.includes(role))) ?? []
    const unable = creators.filter((role) => !(write ?? read)?.includes(role))
    if (lists.size === 0)
      mistakes.push(
        `"${entry}": write FIELD:read=ROLES:write=ROLES, as in cost:read=admin,manager:write=admin`,
      )
    else if (!field)
      mistakes.push(`"${name}" is not possible; choose from ${fields.map((each) => each.name).join(', ')}`)
    else if (unknown.length > 0)
      mistakes.push(`${name}: "${unknown.join('", "')}" is not possible; choose from ${roles.join(', ')}`)
    else if (read && !read.includes('admin'))
      mistakes.push(`${name}: admins read every field; add admin to read`)
    else if (blind.length > 0) mistakes.push(`${name}: ${blind.join(', ')} would write but not read it`)
    else if (unable.length > 0 && field.default === undefined && !field.isNullable && isSent(field))
      mistakes.push(
        `${name}: ${unable.join(' and ')} may create rows but not write it; give it a default, or make it nullable with "?"`,
      )
    else if (read && field.type === 'ref')
      mistakes.push(`${name}: a reference cannot be hidden; write only write=ROLES`)
    return [{ field: name, read, write }]
  })
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return restrictions
}
