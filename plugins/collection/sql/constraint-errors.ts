/** Turns violations of unique and foreign key constraints into API errors. */
import { getTableConfig } from 'drizzle-orm/pg-core'
import { SqlError } from '../../../drizzle/client/errors.ts'
import type { Violation } from '../../../schemas/error.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import type { ResourceDefinition } from '../definition.ts'

const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

/** Returns the columns of unique indexes and of foreign keys, by the names of the constraints. */
function getConstraints(table: ResourceDefinition['table']) {
  const { indexes, foreignKeys } = getTableConfig(table)
  const unique = indexes.flatMap(({ config }) => {
    const names = config.columns.flatMap((column) => ('name' in column ? [String(column.name)] : []))
    return config.unique && config.name && names.length > 0 ? [[config.name, names] as const] : []
  })
  const foreign = foreignKeys.flatMap((key) => {
    const [column] = key.reference().columns
    return column ? [[key.getName(), column.name] as const] : []
  })
  return { unique: new Map(unique), foreign: new Map(foreign) }
}

/** Returns the error for a key that another row has. A key of several columns names them all. */
function createConflict(columns: readonly string[], cause: SqlError) {
  const [together, state] = [columns.join(' and '), columns.length > 1 ? 'are taken together' : 'is taken']
  const violations = columns.map((field): Violation => {
    const others = columns.filter((column) => column !== field).join(' and ')
    const message = others === '' ? 'is taken' : `is taken together with ${others}`
    return { field, message, code: 'ALREADY_EXISTS' }
  })
  return apiError('RESOURCE_CONFLICT', { message: `The ${together} ${state}`, violations, cause })
}

/**
 * Creates a function that returns the API error for a violated constraint, and other errors unchanged.
 * @param parentColumn the column that holds the parent's id
 */
export function createConstraintErrors(
  table: ResourceDefinition['table'],
  parentColumn: string | undefined,
): (error: unknown) => unknown {
  const { unique, foreign } = getConstraints(table)
  return (error) => {
    if (!(error instanceof SqlError)) return error
    const constraint = error.constraint ?? ''
    const uniqueColumns = unique.get(constraint)
    if (error.code === UNIQUE_VIOLATION && uniqueColumns !== undefined) {
      return createConflict(uniqueColumns, error)
    }
    if (error.code !== FOREIGN_KEY_VIOLATION) return error
    const foreignColumn = foreign.get(constraint)
    // A foreign key of another table: its rows refer to the row that is being deleted.
    if (foreignColumn === undefined) {
      return apiError('RESOURCE_CONFLICT', {
        message: 'Other resources still refer to this one',
        cause: error,
      })
    }
    if (foreignColumn === parentColumn) return apiError('RESOURCE_NOT_FOUND', { cause: error })
    return invalidBody([{ field: foreignColumn, message: 'does not exist', code: 'NOT_FOUND' }])
  }
}
