/** Reads v2's request bodies: `{"data": {"type", "id"?, "attributes"}}`, or the members flat, as in v1. */
import { isObject } from '../../../lib/is-object.ts'
import type { Violation } from '../../../schemas/error.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import type { Representation } from './types.ts'

const MEMBERS = ['type', 'id', 'attributes']

const missingField = (field: string): Violation => ({ field, message: 'is required', code: 'REQUIRED' })

const conflict = (field: string, message: string, expected: string) =>
  apiError('RESOURCE_CONFLICT', {
    message,
    violations: [{ field, message: expected, code: 'INVALID_VALUE' }],
  })

/** Returns the violations of the envelope itself, without those of the attributes. */
function checkEnvelope(data: Record<string, unknown>, isNew: boolean): Violation[] {
  const { type, id, attributes } = data
  return [
    ...Object.keys(data)
      .filter((name) => !MEMBERS.includes(name))
      .map(
        (name): Violation => ({
          field: `data.${name}`,
          message: 'is not a known field',
          code: 'UNKNOWN_FIELD',
        }),
      ),
    ...(type === undefined ? [missingField('data.type')] : []),
    ...(isNew && id !== undefined
      ? [{ field: 'data.id', message: 'is assigned by the server', code: 'READ_ONLY' } as const]
      : []),
    ...(attributes === undefined ? [missingField('data.attributes')] : []),
    ...(attributes !== undefined && !isObject(attributes)
      ? [{ field: 'data.attributes', message: 'must be an object', code: 'INVALID_TYPE' } as const]
      : []),
  ]
}

/** UUIDs are case-insensitive. */
const isSameId = (sent: unknown, id: string) => typeof sent === 'string' && sent.toLowerCase() === id

/** Returns the members of a typed or a flat body. */
export const readTyped: Representation['body'] = (sent, type, id) => {
  const { data } = sent
  if (!isObject(data) || Object.keys(sent).length > 1) return { members: sent, prefix: '', violations: [] }
  const violations = checkEnvelope(data, id === undefined)
  // Thrown first: violations of another resource's members would only say that they are unknown.
  if (data.type !== undefined && data.type !== type) {
    throw conflict('data.type', `The type in the body must be "${type}"`, `must be "${type}"`)
  }
  if (id !== undefined && data.id !== undefined && !isSameId(data.id, id)) {
    throw conflict('data.id', 'The id in the body must be the id in the path', 'must be the id in the path')
  }
  if (!isObject(data.attributes)) throw invalidBody(violations)
  return { members: data.attributes, prefix: 'data.attributes.', violations }
}
