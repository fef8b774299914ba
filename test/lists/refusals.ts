/** Checks that values of a query parameter are refused. */
import type { Test } from 'tap'
import type { Client } from '../helpers/app.ts'
import { checkRefusals } from '../helpers/replies.ts'

/**
 * Checks that a list refuses each value with this violation of the parameter alone.
 * @param parameter with the path, such as `/users?status`
 * @param values percent-encoded, and separated by white space
 */
export function checkValues(t: Test, client: Client, parameter: string, code: string, values: string) {
  const violation = `${parameter.replace(/.*\?/, '')} ${code}`
  const paths = values.split(/\s+/).map((value) => [`${parameter}=${value}`, [violation]])
  return checkRefusals(t, client, Object.fromEntries(paths))
}
