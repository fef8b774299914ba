/** Turns violations of unique and foreign key constraints into API errors. */
import { getTableConfig } from 'drizzle-orm/pg-core'
import { SqlError } from '../../../drizzle/client/errors.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import type { ResourceDefinition } from '../definition.ts'

const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

/** Returns the columns of unique indexes and of foreign keys, by the names of the constraints. */
function getConstraints(table: ResourceDefinition['table']) {
  const { indexes, foreignKeys } = getTableConfig(table)
  const unique = indexes.flatMap(({ config }) => {
    const [column] = config.columns
    return config.unique && config.name && column && 'name' in column
      ? [[config.name, String(column.name)] as const]
      : []
  })
  const foreign = foreignKeys.flatMap((key) => {
    const [column] = key.reference().columns
    return column ? [[key.getName(), column.name] as const] : []
  })
  return { unique: new Map(unique), foreign: new Map(foreign) }
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
    const uniqueColumn = unique.get(constraint)
    if (error.code === UNIQUE_VIOLATION && uniqueColumn !== undefined) {
      return apiError('RESOURCE_CONFLICT', {
        message: `The ${uniqueColumn} is taken`,
        violations: [{ field: uniqueColumn, message: 'is taken', code: 'ALREADY_EXISTS' }],
        cause: error,
      })
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
    if (foreignColumn === parentColumn) {
      const message = `The ${foreignColumn} in the path does not exist`
      return apiError('RESOURCE_NOT_FOUND', { message, cause: error })
    }
    return invalidBody([{ field: foreignColumn, message: 'does not exist', code: 'NOT_FOUND' }])
  }
}
