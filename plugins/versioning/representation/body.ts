/** Checks that the body of a request is a JSON object, as every version requires. */
import { isObject } from '../../../lib/is-object.ts'
import { apiError } from '../../errors/index.ts'

/** @throws ApiError 400 if the body is absent or not an object */
export function readObject(sent: unknown): Record<string, unknown> {
  if (sent === undefined) throw apiError('INVALID_REQUEST', { message: 'A request body is required' })
  if (!isObject(sent)) throw apiError('INVALID_REQUEST', { message: 'The body must be a JSON object' })
  return sent
}
