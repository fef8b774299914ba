/** How values travel, the same with both engines: everything goes in as text, little is parsed on its way out. */
import type { Param } from './types.ts'

/** Types by their numbers in `pg_type`, with what becomes of their text; all others are left to the driver. */
export const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  16: (text) => text === 't', // bool
  20: Number, // int8: beyond 2^53 it loses digits; no column of ours goes there
  114: (text) => JSON.parse(text), // json
  3802: (text) => JSON.parse(text), // jsonb
  1082: String, // date
  1114: String, // timestamp
  1184: String, // timestamptz: a JavaScript date would lose microseconds, and costs more than the query
}

/** What a driver would otherwise convert by itself; `texts` has done so already. 17 is bytea. */
export const PLAIN: readonly number[] = [...Object.keys(PARSERS).map(Number), 17]

export type Values = (string | null)[]

/**
 * Values of one statement. postgres.js refuses more, but only when the query has its place among those that wait for
 * an answer: the one that is being answered fails instead, and every answer behind it goes to the wrong query.
 */
const MAX_VALUES = 65_533

/** Values as PostgreSQL reads them. Text only, so that a statement is prepared once and not once per mix of types. */
export function texts(params: readonly Param[]): Values {
  if (params.length > MAX_VALUES)
    throw new RangeError(`The statement has ${params.length} values; at most ${MAX_VALUES} are possible`)
  return params.map((param, index) => {
    if (param === undefined) throw new TypeError(`The statement's value $${index + 1} is undefined`)
    return param === null ? null : String(param)
  })
}
