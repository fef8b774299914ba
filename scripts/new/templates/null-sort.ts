/** The expressions that sort a nullable column so that NULL comes last in both directions: `toSortKey` has the same. */
import type { Field } from '../fields.ts'

const coalesce = (column: string, type: string, greatest: string, least: string) => ({
  ascending: `coalesce(\${${column}}, '${greatest}'::${type})`,
  descending: `coalesce(\${${column}}, '${least}'::${type})`,
})

/** @param column the column in code, as in `t.ends_on` */
export function getNullSort(field: Field, column: string): { ascending: string; descending: string } {
  if (field.type === 'date') return coalesce(column, 'date', 'infinity', '-infinity')
  if (field.type === 'timestamp') return coalesce(column, 'timestamptz', 'infinity', '-infinity')
  if (field.type === 'decimal') return coalesce(column, 'numeric', 'Infinity', '-Infinity')
  if (field.type === 'integer' || field.type === 'money') {
    return coalesce(column, 'bigint', '9223372036854775807', '-9223372036854775808')
  }
  // Texts have no greatest value, so all but NULL get the prefix "0".
  return { ascending: `coalesce('0' || \${${column}}, '1')`, descending: `coalesce(\${${column}}, '')` }
}
