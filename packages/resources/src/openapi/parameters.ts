/** Builds the schemas of the parameters of each operation: those of the path and the request headers. */

import { toPascalCase, toWords } from '@resource-api/api/documents'
import type { Violation } from '@resource-api/api/errors'
import type { Verb } from '@resource-api/api/rules'
import { exampleId } from '@resource-api/api/schemas'
import { createViolation, withDecode } from '@resource-api/api/validation'
import { getGreatest, getIdType, isPossibleId, type Key } from '@resource-api/database/key'
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Resource } from '../definition/resource.ts'

const ID_DESCRIPTION = 'The id of the resource. That of the example does not exist: replace it'
const ID = Type.String({ format: 'uuid', description: ID_DESCRIPTION, examples: [exampleId] })

const buildIdOrMe = (description: string, example: string) =>
  Type.String({
    format: 'uuid-or-me',
    minLength: 1,
    description: `${description}, or \`me\` for the caller`,
    examples: [example],
  })

/**
 * Returns the schema of an id in a path. What the schema of a text cannot say, `checkTexts` finds: `maxLength` would be that of
 * another unit.
 */
function buildKeyId({ rowParts: { key }, schemas }: Resource): TSchema {
  const [part] = key.parts
  if (getIdType(key) === 'uuid') return ID
  const { examples = [], description = 'The id of the resource' } = schemas.read.properties.id ?? ID
  const greatest = key.split ? undefined : getGreatest(part)
  if (greatest === undefined)
    return Type.String({ minLength: 1, description, examples: examples.map(String), 'x-id': 'reference' })
  const minimum = Math.max(-greatest - 1, Number.MIN_SAFE_INTEGER)
  return Type.Integer({ minimum, maximum: greatest, description, examples, 'x-id': 'reference' })
}

/** Returns the function that refuses the texts of a path that are those of no id. */
const checkTexts =
  (keys: readonly (readonly [name: string, key: Key])[]) =>
  (values: Record<string, unknown>, violations: Violation[]) => {
    for (const [name, key] of keys) {
      const text = values[name]
      if (typeof text === 'string' && !isPossibleId(key, text))
        violations.push(createViolation(name, 'is no id', 'INVALID_VALUE'))
    }
    return values
  }

/** A tool that sends the example must not replace or delete the caller, so that of PUT and DELETE is an id. */
function buildId(resource: Resource, verb: Verb): TSchema {
  const { singular, me } = resource
  const id = buildKeyId(resource)
  if (!me) return { ...id, 'x-component': id === ID ? 'Id' : `${singular}Id` }
  return verb === 'remove' || verb === 'replace'
    ? { ...buildIdOrMe('The id of the resource', exampleId), 'x-component': `${singular}Id` }
    : { ...buildIdOrMe('The id of the resource', 'me'), 'x-component': `${singular}IdOrMe` }
}

function buildPath(resource: Resource, verb: Verb): TProperties {
  const { parent, singular } = resource
  const ids = verb === 'list' || verb === 'create' ? {} : { id: buildId(resource, verb) }
  if (!parent) return ids
  const schema = parent.to.me
    ? buildIdOrMe(`The id of the ${toWords(parent.to.singular)}`, 'me')
    : buildKeyId(parent.to)
  const component = `${singular}${toPascalCase(parent.member)}`
  return { [parent.member]: { ...schema, 'x-component': component }, ...ids }
}

/** A header is read where it applies: its documented form may be narrower than what is accepted. */
const buildHeader = (documented: TSchema, component: string) =>
  Type.Optional(Type.String({ 'x-documented': documented, 'x-component': component }))

const buildTextHeader = (
  name: string,
  description: string,
  example: string,
  component = toPascalCase(name),
) => ({
  [name]: buildHeader(Type.String({ description, examples: [example] }), component),
})

const TAGS = 'W/"qHXEPvBzWe2L", "3-qHXEPvBzWe2L"'
const ifNoneMatch = buildTextHeader(
  'If-None-Match',
  'Entity tags that the client has; 304 if one is current',
  TAGS,
)
const LATER = 'Thu, 31 Dec 2099 23:59:59 GMT'
const ifUnmodifiedSince = buildTextHeader('If-Unmodified-Since', 'HTTP date; ignored with If-Match', LATER)
const IF_MATCH = 'Entity tag of the resource as it was read, or `*`; 412 if it has changed since'
const writeHeaders = { ...buildTextHeader('If-Match', IF_MATCH, '*'), ...ifUnmodifiedSince }

/** The header of writes that are done once. */
export const idempotencyKey = {
  'Idempotency-Key': buildHeader(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[!-~]+$',
      description:
        'Makes a retry safe: for 24 hours, requests with the same key and body get the same response, and the write ' +
        'happens once',
      examples: ['0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'],
    }),
    'IdempotencyKey',
  ),
}

/** The header of writes that can respond without resources. */
export const prefer = buildTextHeader(
  'Prefer',
  '`return=minimal` for results without resources; other preferences are ignored (RFC 7240)',
  'return=minimal',
)

const LIST_MATCH = '`*`; 412 for any tag, since the tag of a list is weak'
const READ_MATCH = 'Expected entity tag; 412 if the current one differs'
const CHANGED = 'Sat, 21 Nov 2026 09:30:00 GMT'
const headers: Record<Verb, TProperties> = {
  list: { ...ifNoneMatch, ...buildTextHeader('If-Match', LIST_MATCH, '*', 'ListIfMatch') },
  read: {
    ...ifNoneMatch,
    ...buildTextHeader('If-Modified-Since', 'HTTP date; ignored with If-None-Match', CHANGED),
    ...buildTextHeader('If-Match', READ_MATCH, '*', 'ReadIfMatch'),
    ...ifUnmodifiedSince,
  },
  create: {},
  replace: writeHeaders,
  update: writeHeaders,
  remove: writeHeaders,
}

/** Builds the schemas of the path and of the request headers. */
export function buildParameters(resource: Resource, verb: Verb) {
  const path = buildPath(resource, verb)
  const { parent, rowParts } = resource
  const keys = [
    ['id', rowParts.key] as const,
    ...(parent ? [[parent.member, parent.to.rowParts.key] as const] : []),
  ].filter(([name, key]) => path[name]?.type === 'string' && getIdType(key) !== 'uuid')
  const params = Type.Object(path)
  return {
    params: Type.Unsafe<Record<string, string>>(
      keys.length > 0 ? withDecode(params, checkTexts(keys)) : params,
    ),
    headers: Type.Object(headers[verb]),
  }
}
