/** Runs a statement whose columns are known, and returns its rows with their types. */
import type { Param, Queryable, RunOptions } from './types.ts'

/**
 * @typeParam R the columns of the statement, with the types that `Row` describes
 * @throws as `Queryable.run` does
 */
export const queryRows = <R extends object>(
  connection: Queryable,
  text: string,
  params?: readonly Param[],
  options?: RunOptions,
): Promise<R[]> =>
  // The statement's text names the columns, and the compiler cannot read it.
  connection.run(text, params, options) as Promise<R[]>
