/** Checks that the caller may read the rows that a write refers to, before a rule over relations refuses the write. */
import type { Actor } from '@resource-api/api/actor'
import { type ApiError, apiError, invalidBody } from '@resource-api/api/errors'
import { allows, getRule, isPath, narrowByRow, narrowRule, type Rule } from '@resource-api/api/rules'
import { createViolation } from '@resource-api/api/validation'
import type { Connection } from '@resource-api/database'
import type { Resource } from '../definition/resource.ts'
import { listRuleColumns } from '../sql/rule-paths.ts'
import type { OpenReference } from '../sql/used-rights.ts'
import type { OperationContext } from './context.ts'

/** Returns the references among the named fields of a row. */
function findReferences(
  references: Resource['references'],
  row: Readonly<Record<string, unknown>>,
  names: Iterable<string>,
  actor: Actor,
): OpenReference[] {
  const sent = new Set(names)
  return references.flatMap(({ field, to, foreign }) => {
    const value = row[field]
    if (!sent.has(field) || value === null || value === undefined) return []
    // Without an operation that reads one row, that of lists decides.
    const rule = getRule(to.access, to.access.read ? 'read' : 'list', actor)
    return { field, to, foreign, value, rule, remaining: narrowRule(rule, foreign, value, actor) }
  })
}

/**
 * Returns the references among the named fields of a row that have to be checked: not those to the caller, and none to a
 * resource of which the caller may read all rows. That a row exists is checked by its foreign key.
 */
export const findOpenReferences = (...args: Parameters<typeof findReferences>): OpenReference[] =>
  findReferences(...args).filter(({ remaining }) => remaining !== true)

/** Returns whether the caller may read the row. */
export const isReadable = async (
  connection: Connection,
  { to, foreign, value, rule, remaining }: OpenReference,
  actor: Actor,
): Promise<boolean> =>
  remaining !== false && to.select.isReadable(connection, foreign, value, { rule, actor })

/** @throws ApiError 422, the same as for a row that does not exist */
export async function checkReferences(
  connection: Connection,
  open: readonly OpenReference[],
  actor: Actor,
): Promise<void> {
  const refused: string[] = []
  for (const reference of open) {
    if (!(await isReadable(connection, reference, actor))) refused.push(reference.field)
  }
  if (refused.length === 0) return
  throw invalidBody(refused.sort().map((field) => ({ field, message: 'does not exist', code: 'NOT_FOUND' })))
}

/** A row as a write would leave it, which a rule does not permit to the caller. */
interface RefusedRow {
  row: Readonly<Record<string, unknown>>
  /** The fields that the body may have, or those that it changes. */
  names: Iterable<string>
  rule: Rule
  actor: Actor
}

/** Returns the columns over which a rule refuses a row: those with another value than a condition has, or the keys of its relations. */
const listRefusedColumns = (resource: Resource, rule: Rule, { row, actor }: RefusedRow): string[] =>
  typeof rule === 'boolean'
    ? []
    : rule.flatMap((condition) => {
        const isDifferent = ([name, value]: [string, (typeof condition)[string]]) =>
          !isPath(name) && !allows([{ [name]: value }], row, actor)
        const different = Object.entries(condition).filter(isDifferent)
        return different.length > 0
          ? different.map(([name]) => name)
          : listRuleColumns(resource, narrowByRow([condition], row, actor))
      })

/**
 * Creates the error for a row that the caller may not write. Columns of the row itself are judged before its references, and
 * these before rules over relations, which would not hold for a reference to a row that does not exist.
 * @returns 403 with the fields over which the rule refuses
 * @throws ApiError 422 for references to rows that the caller cannot read
 */
export async function createRowRefusal(
  { bodyReferences, resource }: Pick<OperationContext, 'bodyReferences' | 'resource'>,
  connection: Connection,
  refused: RefusedRow,
  message?: string,
): Promise<ApiError> {
  const { row, names, rule, actor } = refused
  if (narrowByRow(rule, row, actor) !== false) {
    await checkReferences(connection, findReferences(bodyReferences, row, names, actor), actor)
  }
  const { readOnly } = resource.forRole(actor.role)
  const columns = new Set(listRefusedColumns(resource, rule, refused))
  const fields = [...names].filter((name) => columns.has(name) && !readOnly.includes(name)).sort()
  const text = 'has a value that the access rules do not permit'
  const violations = fields.map((field) => createViolation(field, text, 'FORBIDDEN'))
  return apiError('FORBIDDEN', { ...(message !== undefined && { message }), violations })
}
