/** The text of a statement that Drizzle built, and how its parameters are bound to values. */
import { type DriverValueEncoder, Param as EncodedParam, is, Placeholder, type Query } from 'drizzle-orm'
import type { Param } from './types.ts'

/** The values of placeholders by their names. */
export type Values = Readonly<Record<string, unknown>>

/** A value by its placeholder's name, encoded by its column; or else a fixed value. */
interface StatementParam {
  name?: string
  encoder?: DriverValueEncoder<unknown, unknown>
  fixed?: unknown
}

function toStatementParam(param: unknown): StatementParam {
  if (is(param, Placeholder)) return { name: param.name }
  if (is(param, EncodedParam) && is(param.value, Placeholder)) {
    return { name: param.value.name, encoder: param.encoder }
  }
  return { fixed: param }
}

export class Statement {
  readonly text: string
  readonly #params: readonly StatementParam[]

  constructor({ sql, params }: Query) {
    this.text = sql
    this.#params = params.map(toStatementParam)
  }

  /** Returns the values of `$1`, `$2`, ... */
  bind(values: Values = {}): Param[] {
    const bound: unknown[] = []
    for (const { name, encoder, fixed } of this.#params) {
      const value = name === undefined ? fixed : values[name]
      // The encoder of a JSON column would turn NULL into JSON's null, which is why Drizzle's `fillPlaceholders` does not do.
      bound.push(value === null || !encoder ? value : encoder.mapToDriverValue(value))
    }
    // `toTextValues` refuses what is no parameter.
    return bound as Param[]
  }
}
