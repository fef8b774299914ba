/** Turns violations of unique and foreign key constraints into API errors. */
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgColumn } from 'drizzle-orm/pg-core'
import { SqlError } from '../../../drizzle/client/errors.ts'
import { type ApiError, apiError, invalidBody } from '../../errors/index.ts'
import type { ResourceDefinition } from '../definition.ts'

const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

type Index = ReturnType<typeof getTableConfig>['indexes'][number]

/** Returns the columns of an index, those inside its expressions included. */
const getIndexColumns = ({ config }: Index): string[] =>
  config.columns.flatMap((column) => {
    if (!is(column, SQL)) return 'name' in column ? [String(column.name)] : []
    return column.queryChunks.filter((chunk) => is(chunk, PgColumn)).map(({ name }) => name)
  })

/** Returns the columns of unique indexes and constraints, by their names. */
function getUniqueColumns(table: ResourceDefinition['table']): Map<string, readonly string[]> {
  const { columns, indexes, uniqueConstraints } = getTableConfig(table)
  const unique = new Map<string, readonly string[]>()
  for (const index of indexes) {
    if (index.config.unique && index.config.name) unique.set(index.config.name, getIndexColumns(index))
  }
  for (const constraint of uniqueConstraints) {
    const name = constraint.getName()
    if (name !== undefined)
      unique.set(
        name,
        constraint.columns.map((column) => column.name),
      )
  }
  for (const { isUnique, uniqueName, name } of columns) {
    if (isUnique && uniqueName !== undefined) unique.set(uniqueName, [name])
  }
  return unique
}

/** Returns the first column of each foreign key, by the name of the constraint. */
function getForeignColumns(table: ResourceDefinition['table']): Map<string, string> {
  const { foreignKeys } = getTableConfig(table)
  const foreign = foreignKeys.flatMap((key) => {
    const [column] = key.reference().columns
    return column ? [[key.getName(), column.name] as const] : []
  })
  return new Map(foreign)
}

/**
 * Returns the columns with which a write may wait for another transaction: one that has written the same value of a
 * unique index, or that deletes the row to which a foreign key refers. Ids are new, so inserts do not wait for theirs.
 */
export function findConstrainedColumns(table: ResourceDefinition['table']): ReadonlySet<string> {
  const { columns, indexes, foreignKeys } = getTableConfig(table)
  // A change of any column may bring a row into the index.
  if (indexes.some(({ config }) => config.unique && config.where)) {
    return new Set(columns.map(({ name }) => name))
  }
  const foreignColumns = foreignKeys.flatMap((key) => key.reference().columns.map(({ name }) => name))
  return new Set([...[...getUniqueColumns(table).values()].flat(), ...foreignColumns])
}

/**
 * Returns the error for a violated unique index.
 * @param fields the columns of the index that are fields of the resource
 */
function toConflict(fields: readonly string[], cause: SqlError): ApiError {
  const [field, ...others] = fields
  if (field === undefined) return apiError('RESOURCE_CONFLICT', { cause })
  const message =
    others.length === 0 ? `The ${field} is taken` : `The combination of ${fields.join(', ')} is taken`
  const toMessage = (name: string) => {
    const rest = fields.filter((other) => other !== name)
    return rest.length === 0 ? 'is taken' : `is taken together with ${rest.join(', ')}`
  }
  const violations = fields.map((name) => ({
    field: name,
    message: toMessage(name),
    code: 'ALREADY_EXISTS' as const,
  }))
  return apiError('RESOURCE_CONFLICT', { message, violations, cause })
}

/**
 * Creates a function that returns the API error for a violated constraint, and other errors unchanged.
 * @param parentColumn the column that holds the parent's id
 */
export function createConstraintErrors(
  { table, schemas }: Pick<ResourceDefinition, 'table' | 'schemas'>,
  parentColumn: string | undefined,
): (error: unknown) => unknown {
  const uniqueColumns = getUniqueColumns(table)
  const foreignColumns = getForeignColumns(table)
  return (error) => {
    if (!(error instanceof SqlError)) return error
    const constraint = error.constraint ?? ''
    const columns = uniqueColumns.get(constraint)
    if (error.code === UNIQUE_VIOLATION && columns) {
      // A column that is no field, such as the hash of a key, is named to no client.
      return toConflict(
        columns.filter((name) => name in schemas.read.properties),
        error,
      )
    }
    if (error.code !== FOREIGN_KEY_VIOLATION) return error
    const foreignColumn = foreignColumns.get(constraint)
    // A foreign key of another table: its rows refer to the row that is being deleted.
    if (foreignColumn === undefined) {
      return apiError('RESOURCE_CONFLICT', {
        message: 'Other resources still refer to this one',
        cause: error,
      })
    }
    if (foreignColumn === parentColumn) {
      const message = `The ${foreignColumn} in the path does not exist`
      return apiError('RESOURCE_NOT_FOUND', { message, cause: error })
    }
    return invalidBody([{ field: foreignColumn, message: 'does not exist', code: 'NOT_FOUND' }])
  }
}
