/** Turns violations of constraints into API errors. */
import { isObject, listDeclarations, SqlError } from '@resource-api/database/internal'
import { apiError, invalidBody } from '@resource-api/http'
import { getTableColumns, getTableName, is, SQL } from 'drizzle-orm'
import { getTableConfig, PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import type { ConstraintMeaning } from '../resource-table.ts'
import { createToMembers } from './row-content.ts'

/** SQLSTATE unique_violation. */
const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'
const EXCLUSION_VIOLATION = '23P01'
const CHECK_VIOLATION = '23514'
const NOT_NULL_VIOLATION = '23502'

/** Returns the columns that an expression names, other than in raw text. */
export function listColumns(part: unknown): string[] {
  if (is(part, SQL)) return part.queryChunks.flatMap(listColumns)
  if (Array.isArray(part)) return part.flatMap(listColumns)
  return is(part, PgColumn) ? [part.name] : []
}

/** Returns the members of unique indexes and constraints by the names of these, those inside expressions included. */
export function getUniqueColumns(
  table: ResourceDefinition['table'],
): Map<string | undefined, readonly string[]> {
  const { columns, indexes, uniqueConstraints } = getTableConfig(table)
  const toNames = (part: unknown): string[] => {
    if (is(part, SQL)) return listColumns(part)
    return isObject(part) && typeof part.name === 'string' ? [part.name] : []
  }
  const unique = [
    ...indexes
      .filter(({ config }) => config.unique)
      .map(({ config }) => [config.name, config.columns.flatMap(toNames)] as const),
    ...uniqueConstraints.map((each) => [each.getName(), each.columns.map(({ name }) => name)] as const),
    ...columns
      .filter(({ isUnique }) => isUnique)
      .map(({ uniqueName, name }) => [uniqueName, [name]] as const),
  ]
  const toMembers = createToMembers(table)
  return new Map<string | undefined, readonly string[]>(
    unique.map(([name, names]) => [name, toMembers(names)]),
  )
}

/** Returns whether a definition names a constraint that is no check: Drizzle knows no exclusion constraints. */
export function hasExclusion({
  table,
  constraints = {},
}: Pick<ResourceDefinition, 'table' | 'constraints'>): boolean {
  const checkNames = new Set(getTableConfig(table).checks.map(({ name }) => name))
  return Object.keys(constraints).some((name) => !checkNames.has(name))
}

/** Returns the members whose values can conflict with those of other rows. */
export function findConflictColumns(
  definition: Pick<ResourceDefinition, 'table' | 'constraints'>,
): ReadonlySet<string> {
  const { indexes } = getTableConfig(definition.table)
  // A change of any column may bring a row into the index.
  if (hasExclusion(definition) || indexes.some(({ config }) => config.unique && config.where)) {
    return new Set(Object.keys(getTableColumns(definition.table)))
  }
  return new Set([...getUniqueColumns(definition.table).values()].flat())
}

/**
 * Returns what the error for a violated unique index says.
 * @param fields its columns that are fields of the resource
 */
export function describeTaken(fields: readonly string[]) {
  const [field, another] = fields
  const message = another ? `The combination of ${fields.join(', ')} is taken` : `The ${field} is taken`
  const violations = fields.map((name) => {
    const others = fields.filter((other) => other !== name).join(', ')
    const what = others ? `is taken together with ${others}` : 'is taken'
    return { field: name, message: what, code: 'ALREADY_EXISTS' as const }
  })
  return { message, violations }
}

/** @param name of the collection whose rows refer to the one that is to be deleted */
export const describeReferring = (name: string) => `Resources in ${name} still refer to this one`

/** Returns 409 for an exclusion constraint, and 422 for a check: a row without regard to others is wrong. */
function toDeclaredError(meaning: ConstraintMeaning | undefined, cause: SqlError): unknown {
  const isExclusion = cause.code === EXCLUSION_VIOLATION
  if (!meaning) return isExclusion ? apiError('RESOURCE_CONFLICT', { cause }) : cause
  const { code, fields, message } = meaning
  const violations = fields.map((field) => ({ field, message, code }))
  return isExclusion ? apiError('RESOURCE_CONFLICT', { message, violations, cause }) : invalidBody(violations)
}

/**
 * Returns the name of the collection by the name of a table: a table without one, such as that of the items of orders,
 * belongs to the collection with whose rows its own are deleted.
 */
export function nameCollections(
  definitions: readonly Pick<ResourceDefinition, 'name' | 'table'>[],
): ReadonlyMap<string, string> {
  const names = new Map(definitions.map(({ table, name }) => [getTableName(table), name]))
  const others = new Map<string, string>()
  for (const table of listDeclarations()) {
    if (!is(table, PgTable)) continue
    for (const { onDelete, reference } of getTableConfig(table).foreignKeys) {
      const owner = names.get(getTableName(reference().foreignTable))
      if (onDelete === 'cascade' && owner) others.set(getTableName(table), owner)
    }
  }
  return new Map([...others, ...names])
}

/** Returns the name of a collection whose rows prevent that a row of a table is deleted, as long as they refer to it. */
export function findReferring(
  table: PgTable,
  definitions: readonly Pick<ResourceDefinition, 'name' | 'table'>[],
): string | undefined {
  const names = nameCollections(definitions)
  const referring = listDeclarations()
    .filter((each) => is(each, PgTable))
    .find((each) =>
      getTableConfig(each).foreignKeys.some(
        ({ onDelete, reference }) =>
          getTableName(reference().foreignTable) === getTableName(table) &&
          (onDelete === undefined || onDelete === 'no action' || onDelete === 'restrict'),
      ),
    )
  return referring && names.get(getTableName(referring))
}

/**
 * Creates a function that returns the API error for a violated constraint, and other errors unchanged.
 * @param parentColumn the column that holds the parent's id
 * @param collections the names of all collections by those of their tables
 */
export function createConstraintErrors(
  { table, schemas, constraints = {} }: Pick<ResourceDefinition, 'table' | 'schemas' | 'constraints'>,
  parentColumn: string | undefined,
  collections: ReadonlyMap<string, string>,
): (error: unknown, isRemoval: boolean) => unknown {
  const tableName = getTableName(table)
  const isField = (name: string) => name in schemas.read.properties || name in schemas.create.properties
  const uniqueColumns = getUniqueColumns(table)
  const toMembers = createToMembers(table)
  const meanings = new Map(Object.entries(constraints))
  const foreignKeys = getTableConfig(table).foreignKeys
  const foreignColumns = new Map(
    foreignKeys.map((key) => [key.getName(), toMembers(key.reference().columns.map(({ name }) => name))]),
  )
  return (cause, isRemoval) => {
    if (!(cause instanceof SqlError)) return cause
    const { code, constraint = '' } = cause
    const columns = uniqueColumns.get(constraint) ?? toMembers(cause.columns ?? [])
    if (code === UNIQUE_VIOLATION) {
      // A column that is no field, such as the hash of a key, is named to no client.
      const fields = columns.filter((name) => name in schemas.read.properties)
      return apiError('RESOURCE_CONFLICT', { ...(fields.length > 0 && describeTaken(fields)), cause })
    }
    if (code === EXCLUSION_VIOLATION || code === CHECK_VIOLATION) {
      return toDeclaredError(meanings.get(constraint), cause)
    }
    if (code === NOT_NULL_VIOLATION && cause.table === tableName) {
      // A field that the body need not have, and that the code of the route has not set either.
      const sent = (cause.columns ?? []).filter((name) => name in schemas.create.properties)
      const required = sent.map((field) => ({ field, message: 'is required', code: 'REQUIRED' as const }))
      return required.length > 0 ? invalidBody(required) : cause
    }
    if (code !== FOREIGN_KEY_VIOLATION) return cause
    // Drizzle need not know all keys of the table.
    const isOwn = foreignColumns.has(constraint) || cause.table === tableName
    if (isRemoval || !isOwn) {
      // Rows of another table, or of the same one, refer to the row that is being deleted.
      const referring = collections.get(cause.table ?? '')
      const message =
        referring === undefined ? 'Other resources still refer to this one' : describeReferring(referring)
      return apiError('RESOURCE_CONFLICT', { message, cause })
    }
    const keyColumns = foreignColumns.get(constraint) ?? toMembers(cause.columns ?? [])
    const fields = keyColumns.filter((name) => name !== parentColumn && isField(name))
    if (fields.length > 0)
      return invalidBody(fields.map((field) => ({ field, message: 'does not exist', code: 'NOT_FOUND' })))
    if (parentColumn !== undefined && keyColumns.includes(parentColumn)) {
      return apiError('RESOURCE_NOT_FOUND', {
        message: `The ${parentColumn} in the path does not exist`,
        cause,
      })
    }
    return apiError('RESOURCE_CONFLICT', {
      message: 'A resource to which this one refers does not exist',
      cause,
    })
  }
}
