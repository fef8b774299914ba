/** The Ajv keyword `x-unique-by: 'product_id'`: no two items of an array may have the same value of that member. */
import type { ErrorObject, FuncKeywordDefinition, SchemaValidateFunction } from 'ajv'
import { isObject } from '../../lib/is-object.ts'

const validate: SchemaValidateFunction = (
  member: string,
  items: readonly unknown[],
  _parent,
  context,
): boolean => {
  const seen = new Set<unknown>()
  const errors: Partial<ErrorObject>[] = []
  for (const [i, item] of items.entries()) {
    const value = isObject(item) ? item[member] : undefined
    if (value !== undefined && seen.has(value)) {
      errors.push({
        keyword: uniqueBy.keyword,
        instancePath: `${context?.instancePath ?? ''}/${i}/${member}`,
        message: 'must not repeat the value of an earlier item',
      })
    }
    seen.add(value)
  }
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
