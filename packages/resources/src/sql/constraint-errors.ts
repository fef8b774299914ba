/** Turns what the database refuses into API errors: a table of SQLSTATE and answer. */

import { type ApiError, apiError } from '@resource-api/api/errors'
import { isRaised, SqlError } from '@resource-api/database/errors'
import { listDeclarations } from '@resource-api/database/tables'
import { Type } from '@sinclair/typebox'
import { getTableColumns, getTableName, is } from 'drizzle-orm'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import type { Constraint, ConstraintMeaning } from '../definition/resource-table.ts'
import type { ChangeKind } from '../outbox/recorder.ts'
import { createToMembers } from './row-content.ts'
import { type ConstrainedTable, listConstraints, listDeclared } from './table-facts.ts'

/** Returns the members of unique indexes and constraints of a declaration by their names, those inside expressions included. */
export function getUniqueColumns(table: PgTable): Map<string, readonly string[]> {
  const toMembers = createToMembers(table)
  return new Map(
    listDeclared(table).flatMap(({ kind, name, columns }) =>
      kind === 'unique' ? [[name, toMembers(columns)] as const] : [],
    ),
  )
}

type Constrained = ConstrainedTable & Pick<ResourceDefinition, 'constraints'>

/** Returns whether a table has an exclusion constraint: a definition may name it before the database is known. */
export function hasExclusion({ table, catalog, constraints = {} }: Constrained): boolean {
  if (catalog) return catalog.some(({ kind }) => kind === 'exclusion')
  const checkNames = new Set(getTableConfig(table).checks.map(({ name }) => name))
  return Object.keys(constraints).some((name) => !checkNames.has(name))
}

/** Returns the members whose values can conflict with those of other rows. */
export function findConflictColumns(definition: Constrained): ReadonlySet<string> {
  const unique = listConstraints(definition).filter(({ kind }) => kind === 'unique')
  // A change of any column may bring a row into the index.
  if (hasExclusion(definition) || unique.some(({ isPartial }) => isPartial)) {
    return new Set(Object.keys(getTableColumns(definition.table)))
  }
  return new Set(createToMembers(definition.table)(unique.flatMap(({ columns }) => columns)))
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

/** SQLSTATE insufficient_privilege. */
const INSUFFICIENT_PRIVILEGE = '42501'

/** A statement that the database refused, with what the resource knows of the constraint. */
interface Refusal {
  cause: SqlError
  resource: Pick<RefusedResource, 'schemas' | 'raises' | 'parent' | 'collections'>
  /** The members that the columns of the constraint, or those that the error names, are. */
  fields: readonly string[]
  /** What the definition says of the constraint. */
  meaning: ConstraintMeaning | undefined
  /** Whether rows refer to the one that is deleted, or whose key is changed. */
  isReferredTo: boolean
}

interface RefusedResource extends Constrained, Pick<ResourceDefinition, 'schemas' | 'raises'> {
  parent?: { member: string }
  /** The names of all collections by those of their tables. */
  collections?: ReadonlyMap<string, string>
}

/** A value is wrong without regard to other rows. */
const refuseFields = (
  { cause, fields }: Pick<Refusal, 'cause' | 'fields'>,
  code: ConstraintMeaning['code'],
  describe: (others: string) => string,
) => {
  const violations = fields.map((field) => {
    const others = fields.filter((other) => other !== field).join(', ')
    return { field, message: describe(others), code }
  })
  return apiError('VALIDATION_ERROR', {
    message:
      fields.length > 0 ? 'The body has invalid fields' : 'The database does not accept a value of the write',
    violations,
    cause,
  })
}

const refuseRow = ({ cause }: Refusal) => apiError('RESOURCE_CONFLICT', { cause })

const refuseValue = ({ cause }: Refusal) => refuseFields({ cause, fields: [] }, 'INVALID_VALUE', () => '')

function refuseDeletion({ cause, resource }: Refusal) {
  const name = resource.collections?.get(cause.table ?? '')
  const message = name === undefined ? 'Other resources still refer to this one' : describeReferring(name)
  return apiError('RESOURCE_CONFLICT', { message, cause })
}

function refuseReference(refusal: Refusal) {
  const { cause, fields, isReferredTo, resource } = refusal
  if (isReferredTo) return refuseDeletion(refusal)
  const member = resource.parent?.member
  const sent = fields.filter((name) => name !== member)
  if (sent.length === 0 && member !== undefined && fields.includes(member)) {
    return apiError('RESOURCE_NOT_FOUND', { message: `The ${member} in the path does not exist`, cause })
  }
  return refuseFields({ ...refusal, fields: sent }, 'NOT_FOUND', () => 'does not exist')
}

function refuseTaken({ cause, fields, resource }: Refusal) {
  // A column that is no field, such as the hash of a key, is named to no client.
  const shown = fields.filter((name) => name in resource.schemas.read.properties)
  return apiError('RESOURCE_CONFLICT', { ...(shown.length > 0 && describeTaken(shown)), cause })
}

function refuseExclusion({ cause, meaning }: Refusal) {
  if (!meaning) return apiError('RESOURCE_CONFLICT', { cause })
  const { code, fields, message } = meaning
  const violations = fields.map((field) => ({ field, message, code }))
  return apiError('RESOURCE_CONFLICT', { message, violations, cause })
}

function refuseCheck(refusal: Refusal) {
  const { fields, meaning } = refusal
  if (meaning)
    return refuseFields({ ...refusal, fields: meaning.fields }, meaning.code, () => meaning.message)
  return refuseFields({ ...refusal, fields }, 'INVALID_VALUE', (others) =>
    others ? `is not allowed together with ${others}` : 'is not allowed',
  )
}

function refuseNull(refusal: Refusal) {
  const { create, change } = refusal.resource.schemas
  // A member that only the server sets is missing for no fault of the client.
  const fields = refusal.fields.filter((name) => name in create.properties || name in change.properties)
  return refuseFields({ ...refusal, fields }, 'REQUIRED', () => 'is required')
}

function refuseRaised({ cause, resource }: Refusal) {
  const message = resource.raises && cause.cause instanceof Error ? cause.cause.message : undefined
  return apiError('RESOURCE_CONFLICT', { ...(message !== undefined && { message }), cause })
}

const refuseRights = ({ cause }: Refusal) => apiError('FORBIDDEN', { cause })

/** The answers to the errors of PostgreSQL that refuse a write, by SQLSTATE. Those of all others are faults: 500. */
const ANSWERS: Readonly<Record<string, (refusal: Refusal) => ApiError>> = {
  /** integrity_constraint_violation */
  23000: refuseRow,
  /** restrict_violation: `on delete restrict` from PostgreSQL 18 on */
  23001: refuseDeletion,
  /** not_null_violation */
  23502: refuseNull,
  /** foreign_key_violation */
  23503: refuseReference,
  /** unique_violation */
  23505: refuseTaken,
  /** check_violation; no partition for a row, without a name of a constraint */
  23514: refuseCheck,
  /** exclusion_violation */
  '23P01': refuseExclusion,
  /** Also the policies of row security. */
  [INSUFFICIENT_PRIVILEGE]: refuseRights,
  /** with_check_option_violation */
  44000: refuseValue,
  /** program_limit_exceeded: a value is too long for an index */
  54000: refuseValue,
}

/** The class data_exception: too long, out of range, or of a form that a type does not have. */
const DATA_EXCEPTION = '22'

function findAnswer({ code }: SqlError) {
  if (code.startsWith(DATA_EXCEPTION)) return refuseValue
  return ANSWERS[code] ?? (isRaised(code) ? refuseRaised : undefined)
}

/**
 * Returns the error for a statement that changed fewer rows than it had to, without an error of the database: a trigger has
 * swallowed the write, a policy hides the row from DELETE, or the row is not the one that was read.
 */
export function createUnwritten({ catalog = [] }: ConstrainedTable, kind: ChangeKind): ApiError {
  const message = 'The database has not written the row'
  if (kind !== 'deleted' || catalog.every((each) => each.kind !== 'row security'))
    return apiError('RESOURCE_CONFLICT', { message })
  const reason = new Error('A policy of row security hides the row from DELETE')
  return apiError('FORBIDDEN', { cause: new SqlError(INSUFFICIENT_PRIVILEGE, {}, reason) })
}

const NO_FIELDS = Type.Object({})
const NO_RESOURCE = { schemas: { read: NO_FIELDS, create: NO_FIELDS, change: NO_FIELDS } }

/** Returns the API error for a statement of own code that the database refused, without details, and any other error unchanged. */
export function toBareError(cause: unknown): unknown {
  if (!(cause instanceof SqlError)) return cause
  const refusal = { cause, resource: NO_RESOURCE, fields: [], meaning: undefined, isReferredTo: false }
  return findAnswer(cause)?.(refusal) ?? cause
}

/**
 * Returns the constraint that is violated, and whether rows refer to the one that is deleted, or whose key is changed. A
 * statement of a trigger may violate a key of other rows from its other side, of which the client knows no member.
 */
function findConstraint(
  constraints: readonly Constraint[],
  { constraint, table, schema, columns }: SqlError,
  isRemoval: boolean,
): Pick<Refusal, 'isReferredTo'> & { found?: Constraint | undefined } {
  // Citus names no table, and a declaration no schema.
  const named = constraints.filter(
    (each) =>
      each.name === constraint &&
      (table === undefined || table === each.table) &&
      (schema === undefined || each.schema === undefined || schema === each.schema),
  )
  const [first] = named
  const isReference = ({ kind }: Constraint) => kind === 'reference'
  if (!first || (first.kind !== 'foreign key' && !isReference(first)))
    return { found: first, isReferredTo: isRemoval }
  // Without the right to read the table, an error has no columns.
  const found = named.find((each) =>
    columns ? `${each.columns}` === `${columns}` : isReference(each) === isRemoval,
  )
  return { found, isReferredTo: found ? isReference(found) : !isReference(first) }
}

/**
 * Creates a function that returns the API error for a statement that the database refused, and other errors unchanged.
 * `isRemoval` says that the statement deletes rows.
 */
export function createConstraintErrors(
  resource: RefusedResource,
): (error: unknown, isRemoval: boolean) => unknown {
  const { table, schemas, constraints = {} } = resource
  const toMembers = createToMembers(table)
  const isField = (name: string) => name in schemas.read.properties || name in schemas.create.properties
  const meanings = new Map(Object.entries(constraints))
  const known = listConstraints(resource)
  const ownTables = new Set([
    getTableName(table),
    ...known.filter(({ kind }) => kind !== 'reference').map((each) => each.table),
  ])
  return (cause, isRemoval) => {
    const answer = cause instanceof SqlError ? findAnswer(cause) : undefined
    if (!(cause instanceof SqlError) || !answer) return cause
    const { found, isReferredTo } = findConstraint(known, cause, isRemoval)
    const isOwn = found ? found.kind !== 'reference' : cause.table === undefined || ownTables.has(cause.table)
    const names = found?.columns ?? cause.columns ?? []
    return answer({
      cause,
      resource,
      fields: isOwn ? toMembers(names).filter(isField) : [],
      meaning: isOwn ? meanings.get(cause.constraint ?? '') : undefined,
      isReferredTo,
    })
  }
}
