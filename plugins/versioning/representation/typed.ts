/** v2's bodies: `{"data": {"type", "id"?, "attributes"}}`, or the members flat, as in v1. */

import { isObject } from '../../../lib/is-object.ts'
import type { Violation } from '../../../schemas/error.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import type { Representation } from './types.ts'

const MEMBERS = ['type', 'id', 'attributes']

const required = (field: string): Violation => ({ field, message: 'is required', code: 'REQUIRED' })

const conflict = (message: string, field: string, expected: string) =>
  apiError('RESOURCE_CONFLICT', {
    message,
    violations: [{ field, message: expected, code: 'INVALID_VALUE' }],
  })

/** What is wrong with the envelope itself. */
function violationsOf(data: Record<string, unknown>, isNew: boolean): Violation[] {
  const { type, id, attributes } = data
  return [
    ...Object.keys(data)
      .filter((name) => !MEMBERS.includes(name))
      .map(
        (name): Violation => ({
          field: `data.${name}`,
          message: 'is not a known member',
          code: 'UNKNOWN_FIELD',
        }),
      ),
    ...(type === undefined ? [required('data.type')] : []),
    ...(isNew && id !== undefined
      ? [{ field: 'data.id', message: 'is made by the server', code: 'READ_ONLY' } as const]
      : []),
    ...(attributes === undefined ? [required('data.attributes')] : []),
    ...(attributes !== undefined && !isObject(attributes)
      ? [{ field: 'data.attributes', message: 'must be an object', code: 'INVALID_TYPE' } as const]
      : []),
  ]
}

/** UUIDs are the same in either letter case. */
const isSameId = (sent: unknown, id: string) => typeof sent === 'string' && sent.toLowerCase() === id

export const readTyped: Representation['body'] = (sent, type, id) => {
  const { data } = sent
  if (!isObject(data) || Object.keys(sent).length > 1) return { members: sent, prefix: '', violations: [] }
  const violations = violationsOf(data, id === undefined)
  // What is meant for another resource would only be told that its members are unknown here.
  if (data.type !== undefined && data.type !== type) {
    throw conflict(`The body's type is not "${type}"`, 'data.type', `must be "${type}"`)
  }
  if (id !== undefined && data.id !== undefined && !isSameId(data.id, id)) {
    throw conflict("The body's id is not the addressed one", 'data.id', 'must be the id in the path')
  }
  if (!isObject(data.attributes)) throw invalidBody(violations)
  return { members: data.attributes, prefix: 'data.attributes.', violations }
}
