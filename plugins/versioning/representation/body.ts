/** What both versions ask of a body: that it is an object. */
import { isObject } from '../../../lib/is-object.ts'
import { apiError } from '../../errors/index.ts'

/** @throws ApiError 400 for an absent body and for one that is no object */
export function readObject(sent: unknown): Record<string, unknown> {
  if (sent === undefined) throw apiError('INVALID_REQUEST', { message: 'A body is required' })
  if (!isObject(sent)) throw apiError('INVALID_REQUEST', { message: 'The body must be a JSON object' })
  return sent
}
