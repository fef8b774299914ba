/** Reads v2's request bodies: `{"data": {"type", "id"?, "attributes"}}`, or the members flat, as in v1. */
import { isObject, isUuid } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'
import type { FieldCode, Violation } from '../../errors/codes.ts'
import { apiError, invalidBody } from '../../errors/errors.ts'
import type { Envelope, Fields, OpenedBody } from '../../validation/schema-functions.ts'

const MEMBERS = ['type', 'id', 'attributes']

const conflict = (field: string, message: string, expected: string) =>
  apiError('RESOURCE_CONFLICT', {
    message,
    violations: [{ field, message: expected, code: 'INVALID_VALUE' }],
  })

interface IdOptions {
  /** Whether the request creates the resource. */
  isNew: boolean
  /** The schema of the id in the collection, if the client sets it. */
  ownId: TSchema | undefined
}

/** Returns the violations of the envelope itself, without those of the attributes. */
function checkEnvelope(data: Fields, { isNew, ownId }: IdOptions): Violation[] {
  const { type, id, attributes } = data
  const violations: Violation[] = []
  const add = (name: string, message: string, code: FieldCode) =>
    violations.push({ field: `data.${name}`, message, code })
  for (const name of Object.keys(data)) {
    if (!MEMBERS.includes(name)) add(name, 'is not a known field', 'UNKNOWN_FIELD')
  }
  if (type === undefined) add('type', 'is required', 'REQUIRED')
  if (isNew && !ownId && id !== undefined) add('id', 'is assigned by the server', 'READ_ONLY')
  if (ownId && isObject(attributes) && 'id' in attributes)
    add('attributes.id', 'is not a known field', 'UNKNOWN_FIELD')
  if (attributes === undefined) add('attributes', 'is required', 'REQUIRED')
  else if (!isObject(attributes)) add('attributes', 'must be an object', 'INVALID_TYPE')
  return violations
}

/** The id of a resource is a text here, whatever it is in the collection. UUIDs are case-insensitive. */
const isSameId = (sent: unknown, id: string) =>
  typeof sent === 'string' && (sent === id || (isUuid(sent) && sent.toLowerCase() === id))

const isTyped = (sent: object): sent is { data: Fields } =>
  'data' in sent && isObject(sent.data) && Object.keys(sent).length === 1

/** Returns an id as the collection has it. */
const toOwnId = (sent: unknown, { type }: TSchema) =>
  type === 'integer' && typeof sent === 'string' && /^(?:0|-?[1-9]\d{0,15})$/.test(sent) ? Number(sent) : sent

/** Returns the members of a typed or a flat body. */
function openTyped(sent: Fields, id?: string | number, ownId?: TSchema): OpenedBody {
  // A typed body is an object with `data` alone; any other body is flat. The fields of an invalid form are not read.
  if (!isTyped(sent)) return { members: sent, prefix: '' }
  const { data } = sent
  if (id !== undefined && data.id !== undefined && !isSameId(data.id, String(id))) {
    throw conflict('data.id', 'The id in the body must be the id in the path', 'must be the id in the path')
  }
  const attributes = Object(data.attributes)
  // A body that was validated has it among its attributes.
  const isBeside = ownId && data.id !== undefined && !('id' in attributes)
  const members = isBeside ? { ...attributes, id: toOwnId(data.id, ownId) } : attributes
  return { members, prefix: 'data.attributes.' }
}

export const createTypedEnvelope = (
  { fields, document }: Pick<Envelope, 'fields' | 'document'>,
  type: string,
  ids: IdOptions,
): Envelope => ({
  fields,
  document,
  open: ids.ownId ? (sent, id) => openTyped(sent, id, ids.ownId) : openTyped,
  check(sent) {
    if (!isTyped(sent)) return []
    const { data } = sent
    // Alone: violations of another resource's members would only say that they are unknown.
    if (data.type !== undefined && data.type !== type) {
      return conflict('data.type', `The type in the body must be "${type}"`, `must be "${type}"`)
    }
    const violations = checkEnvelope(data, ids)
    return isObject(data.attributes) ? violations : invalidBody(violations)
  },
  replace: (sent, members) => (isTyped(sent) ? { data: { ...sent.data, attributes: members } } : members),
})
