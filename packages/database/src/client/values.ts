/**
 * How values are converted, the same for both engines: all parameters are sent as text, few result types are parsed.
 */
import type { Param } from './types.ts'

/** Parsers of result values, by the type's number in `pg_type`. All other types are left to the driver. */
export const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  16: (text) => text === 't', // bool
  20: Number, // int8: beyond 2^53 it loses digits; no column holds such numbers
  114: (text) => JSON.parse(text), // json
  3802: (text) => JSON.parse(text), // jsonb
  1082: String, // date
  1114: String, // timestamp
  1184: String, // timestamptz: a JavaScript date would lose microseconds, and costs more than the query
}

/** Types whose parameters a driver would convert although `toTextValues` has done so. 17 is bytea. */
export const PRESERIALIZED_TYPES: readonly number[] = [...Object.keys(PARSERS).map(Number), 17]

export type TextValues = (string | null)[]

/**
 * Parameters of one statement. postgres.js refuses more, but only after it has put the query into its queue of
 * unanswered queries: the query that is being answered fails instead, and every later answer goes to the wrong query.
 */
const MAX_PARAMS = 65_533

type Item = Exclude<Param, readonly unknown[]>

/** Writes an array as PostgreSQL's text. */
const toArrayText = (items: readonly Item[]): string =>
  `{${items.map((item) => (item === null ? 'null' : `"${String(item).replaceAll(/["\\]/g, '\\$&')}"`)).join()}}`

/**
 * Returns parameters as PostgreSQL's text format. With one type only, a statement is prepared once, not once per mix
 * of types.
 * @throws TypeError for what is no parameter, such as an object that no column has encoded
 */
export function toTextValues(params: readonly Param[]): TextValues {
  if (params.length > MAX_PARAMS)
    throw new RangeError(`The statement has ${params.length} parameters; at most ${MAX_PARAMS} are allowed`)
  const values: TextValues = []
  for (const param of params) {
    if (param === null) values.push(null)
    else if (Array.isArray(param)) values.push(toArrayText(param))
    else if (param === undefined || typeof param === 'object' || typeof param === 'function')
      throw new TypeError(`The statement's parameter $${values.length + 1} is ${typeof param}`)
    else values.push(String(param))
  }
  return values
}
