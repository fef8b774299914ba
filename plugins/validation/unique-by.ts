/** `x-unique-by: 'product_id'`: an Ajv keyword for arrays in which no two items have the same value of a member. */
import type { ErrorObject, FuncKeywordDefinition, SchemaValidateFunction } from 'ajv'
import { isObject } from '../../lib/is-object.ts'

/** The places of the items whose value an earlier one has. */
function repeated(items: readonly unknown[], member: string): number[] {
  const seen = new Set<unknown>()
  return items.flatMap((item, i) => {
    const value = isObject(item) ? item[member] : undefined
    if (value !== undefined && seen.has(value)) return [i]
    seen.add(value)
    return []
  })
}

const validate: SchemaValidateFunction = (
  member: string,
  items: readonly unknown[],
  _parent,
  at,
): boolean => {
  const errors = repeated(items, member).map(
    (i): Partial<ErrorObject> => ({
      keyword: uniqueBy.keyword,
      instancePath: `${at?.instancePath ?? ''}/${i}/${member}`,
      message: 'is there already',
    }),
  )
  validate.errors = errors
  return errors.length === 0
}

export const uniqueBy = {
  keyword: 'x-unique-by',
  type: 'array',
  schemaType: 'string',
  errors: 'full',
  validate,
} as const satisfies FuncKeywordDefinition
