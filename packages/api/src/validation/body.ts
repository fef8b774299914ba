/** Normalizes and validates request bodies by their schemas, and reports all violations together. */
import { isObject } from '@resource-api/database/values'
import { OptionalKind, type TSchema } from '@sinclair/typebox'
import { MAX_VIOLATIONS, type Violation } from '../errors/codes.ts'
import { ApiError, apiError, invalidBody } from '../errors/errors.ts'
import { OneOf } from '../schemas/types.ts'
import { compileSchema } from './formats.ts'
import { normalize } from './normalize.ts'
import { getDecode, getEnvelope } from './schema-functions.ts'
import { deduplicate, toViolations } from './violations.ts'

/** The result of Fastify's validators. */
export type Validated = { value: unknown; error?: never } | { value?: never; error: ApiError }

interface ReadValue {
  value: unknown
  violations: readonly Violation[]
}

/** Compiles a union whose alternatives differ in the one value of a member, as `discriminator` says. */
function compileUnion({ anyOf, discriminator }: TSchema): (sent: unknown) => ReadValue {
  const { propertyName } = discriminator
  const alternatives = new Map<unknown, (sent: unknown) => ReadValue>(
    anyOf.map((each: TSchema) => [each.properties[propertyName].enum[0], compileValue(each)]),
  )
  const validate = compileSchema({
    type: 'object',
    required: [propertyName],
    properties: { [propertyName]: OneOf([...alternatives.keys()].map(String)) },
  })
  return (sent) => {
    const read = isObject(sent) ? alternatives.get(sent[propertyName]) : undefined
    if (read) return read(sent)
    validate(sent)
    return { value: sent, violations: toViolations(validate.errors ?? []) }
  }
}

const NO_VIOLATIONS: readonly Violation[] = []

/** Creates the function that normalizes and validates a value; the fields of a body, or a body without fields. */
export function compileValue(schema: TSchema): (sent: unknown) => ReadValue {
  if (schema.discriminator) return compileUnion(schema)
  const validate = compileSchema(schema)
  const decode = getDecode(schema)

  return (sent) => {
    const { value, violations: normalizing, settled } = normalize(sent, schema)
    // No more are reported, so the rest of the body is not validated.
    if (normalizing.length >= MAX_VIOLATIONS) return { value, violations: normalizing }
    const isValid = validate(value)
    if (!decode && isValid && normalizing.length === 0) return { value, violations: NO_VIOLATIONS }
    const validating = isValid ? [] : toViolations(validate.errors ?? [])
    const violations = deduplicate([...normalizing, ...validating.filter(({ field }) => !settled.has(field))])
    if (!decode) return { value, violations }
    const invalid = new Set(violations.map(({ field }) => field.split('.', 1)[0]))
    const valid = Object.entries(Object(value)).filter(([name]) => !invalid.has(name))
    const decoded = decode(invalid.size === 0 ? value : Object.fromEntries(valid), violations)
    return { value: decoded, violations }
  }
}
/** Compiles the schema of a body. The value has the form of the body that was sent, in its envelope if it has one. */
export function compileBody(schema: TSchema): (sent: unknown) => Validated {
  const envelope = getEnvelope(schema)
  const readValue = compileValue(envelope ? envelope.fields : schema)
  const isOptional = OptionalKind in schema
  const mustBeObject =
    schema.type === 'object' || envelope !== undefined || schema.discriminator !== undefined

  return (sent) => {
    if (isOptional && (sent === undefined || sent === null)) return { value: {} }
    if (mustBeObject && !isObject(sent)) {
      const message = sent === undefined ? 'A request body is required' : 'The body must be a JSON object'
      return { error: apiError('INVALID_REQUEST', { message }) }
    }
    if (!envelope || !isObject(sent)) {
      const { value, violations } = readValue(sent)
      return violations.length > 0 ? { error: invalidBody(violations) } : { value }
    }
    const found = envelope.check(sent)
    if (found instanceof ApiError) return { error: found }
    const { members, prefix } = envelope.open(sent)
    const { value, violations } = readValue(members)
    const inside = violations.map((each) => ({ ...each, field: `${prefix}${each.field}` }))
    if (found.length + inside.length > 0) return { error: invalidBody([...found, ...inside]) }
    return { value: isObject(value) ? envelope.replace(sent, value) : sent }
  }
}
