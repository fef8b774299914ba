/** The Ajv keyword `x-unique-by: 'product_id'`: no two items of an array may have the same value of that member. */
import type { ErrorObject, FuncKeywordDefinition, SchemaValidateFunction } from 'ajv'
import { isObject } from '../../lib/is-object.ts'

/** Returns the indexes of the items whose value an earlier item has. */
function findRepeated(items: readonly unknown[], member: string): number[] {
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
  context,
): boolean => {
  const errors = findRepeated(items, member).map(
    (i): Partial<ErrorObject> => ({
      keyword: uniqueBy.keyword,
      instancePath: `${context?.instancePath ?? ''}/${i}/${member}`,
      message: 'must not repeat the value of an earlier item',
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
