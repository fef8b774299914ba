/** Reads v2's request bodies: `{"data": {"type", "id"?, "attributes"}}`, or the members flat, as in v1. */
import { isObject } from '@resource-api/database/values'
import type { FieldCode, Violation } from '../../errors/codes.ts'
import { apiError, invalidBody } from '../../errors/errors.ts'
import type { Envelope, Fields, OpenedBody } from '../../validation/schema-functions.ts'

const MEMBERS = ['type', 'id', 'attributes']

const conflict = (field: string, message: string, expected: string) =>
  apiError('RESOURCE_CONFLICT', {
    message,
    violations: [{ field, message: expected, code: 'INVALID_VALUE' }],
  })

/** Returns the violations of the envelope itself, without those of the attributes. */
function checkEnvelope(data: Fields, isNew: boolean): Violation[] {
  const { type, id, attributes } = data
  const violations: Violation[] = []
  const add = (name: string, message: string, code: FieldCode) =>
    violations.push({ field: `data.${name}`, message, code })
  for (const name of Object.keys(data)) {
    if (!MEMBERS.includes(name)) add(name, 'is not a known field', 'UNKNOWN_FIELD')
  }
  if (type === undefined) add('type', 'is required', 'REQUIRED')
  if (isNew && id !== undefined) add('id', 'is assigned by the server', 'READ_ONLY')
  if (attributes === undefined) add('attributes', 'is required', 'REQUIRED')
  else if (!isObject(attributes)) add('attributes', 'must be an object', 'INVALID_TYPE')
  return violations
}

/** UUIDs are case-insensitive. */
const isSameId = (sent: unknown, id: string) => typeof sent === 'string' && sent.toLowerCase() === id

const isTyped = (sent: object): sent is { data: Fields } =>
  'data' in sent && isObject(sent.data) && Object.keys(sent).length === 1

/** Returns the members of a typed or a flat body. */
function openTyped(sent: Fields, id?: string): OpenedBody {
  // A typed body is an object with `data` alone; any other body is flat. The fields of an invalid form are not read.
  if (!isTyped(sent)) return { members: sent, prefix: '' }
  const { data } = sent
  if (id !== undefined && data.id !== undefined && !isSameId(data.id, id)) {
    throw conflict('data.id', 'The id in the body must be the id in the path', 'must be the id in the path')
  }
  return { members: Object(data.attributes), prefix: 'data.attributes.' }
}

/** @param isNew whether the server assigns the id, so that the body must not have one */
export const createTypedEnvelope = (
  { fields, document }: Pick<Envelope, 'fields' | 'document'>,
  type: string,
  isNew: boolean,
): Envelope => ({
  fields,
  document,
  open: openTyped,
  check(sent) {
    if (!isTyped(sent)) return []
    const { data } = sent
    // Alone: violations of another resource's members would only say that they are unknown.
    if (data.type !== undefined && data.type !== type) {
      return conflict('data.type', `The type in the body must be "${type}"`, `must be "${type}"`)
    }
    const violations = checkEnvelope(data, isNew)
    return isObject(data.attributes) ? violations : invalidBody(violations)
  },
  replace: (sent, members) => (isTyped(sent) ? { data: { ...sent.data, attributes: members } } : members),
})
