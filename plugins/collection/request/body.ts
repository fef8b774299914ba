/** Reads request bodies: normalizes and validates the fields, reports all violations together, and fills in defaults. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import { isObject } from '../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import { deduplicate, toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import type { ReadBody } from '../../versioning/representation/types.ts'
import { DEFAULT_MAX_ITEMS, type Normalized, normalize } from './normalize.ts'

/** What a body does: creates a resource, replaces one, or changes the fields that it names (RFC 7396). */
export type Mode = 'create' | 'replace' | 'update'

type Fields = Record<string, unknown>

/**
 * Returns the body of a request, which every version requires to be a JSON object.
 * @throws ApiError 400 if it is absent or not an object
 */
export function readObject(sent: unknown): Fields {
  if (sent === undefined) throw apiError('INVALID_REQUEST', { message: 'A request body is required' })
  if (!isObject(sent)) throw apiError('INVALID_REQUEST', { message: 'The body must be a JSON object' })
  return sent
}

const hasDefault = (schema: TSchema) => schema.default !== undefined

const isObjectSchema = (schema: TSchema): schema is TObject => isObject(schema.properties)

/** Returns the schema of a body: without unknown fields, and without required fields that have a default. */
export function toBodySchema(schema: TObject, mode: Mode): TObject {
  const properties = Object.fromEntries(
    Object.entries(schema.properties).map(([name, property]) => [name, toBodyProperty(property, mode)]),
  )
  const isRequired = (name: string) => {
    const property = schema.properties[name]
    return property !== undefined && !hasDefault(property)
  }
  const required = mode === 'update' ? [] : (schema.required ?? []).filter(isRequired)
  return { ...schema, properties, additionalProperties: false, required }
}

function toBodyProperty(property: TSchema, mode: Mode): TSchema {
  const { default: _, ...withoutDefault } = property
  const kept: TSchema = mode === 'update' ? withoutDefault : property
  if (isObjectSchema(kept)) return toBodySchema(kept, mode)
  // PATCH, too, replaces an array as a whole.
  return property.items ? { ...kept, items: toBodyProperty(property.items, 'create') } : kept
}

/** Returns a schema with fields that PUT may repeat from the resource as it was read. */
export const addRepeatableFields = (schema: TObject, read: TObject, names: readonly string[]): TObject =>
  Type.Object(
    {
      ...Object.fromEntries(
        names.flatMap((name) => {
          const property = read.properties[name]
          return property ? [[name, Type.Optional(property)]] : []
        }),
      ),
      ...schema.properties,
    },
    { title: schema.title ?? '' },
  )

export type FillDefaults = (value: Readonly<Fields>) => Fields

/**
 * Creates a function that fills in the defaults of absent fields, in nested objects too.
 * @param except fields of the outermost object that stay absent
 */
export function createDefaults(schema: TSchema, except: readonly string[] = []): FillDefaults {
  const properties: Record<string, TSchema> = schema.properties ?? {}
  const defaults = Object.entries(properties).filter(
    ([name, property]) => hasDefault(property) && !except.includes(name),
  )
  const nested = Object.entries(properties).flatMap(([name, property]) =>
    isObjectSchema(property) ? [{ name, fill: createDefaults(property) }] : [],
  )
  return (value) => {
    const filled: Fields = { ...value }
    for (const { name, fill } of nested) {
      const given = filled[name]
      if (isObject(given)) filled[name] = fill(given)
    }
    for (const [name, property] of defaults) {
      if (filled[name] === undefined) filled[name] = property.default
    }
    return filled
  }
}

/** Merges a patch into a value (RFC 7396): objects field by field; null removes a field. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged: Fields = isObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = mergePatch(merged[name], value)
  }
  return merged
}

/** Returns an object without the fields that can be read but not written, which PUT ignores. */
function removeReadOnly(fields: Readonly<Fields>, read: TSchema, input: TSchema): Fields {
  const kept = Object.entries(fields).filter(
    ([name]) => Object.hasOwn(input.properties, name) || !Object.hasOwn(read.properties, name),
  )
  return Object.fromEntries(
    kept.map(([name, field]) => [
      name,
      removeReadOnlyInside(field, read.properties[name], input.properties[name]),
    ]),
  )
}

function removeReadOnlyInside(
  value: unknown,
  read: TSchema | undefined,
  input: TSchema | undefined,
): unknown {
  if (Array.isArray(value)) {
    // Too long, so it is refused anyway: do not spend time on its items.
    if (value.length > (input?.maxItems ?? DEFAULT_MAX_ITEMS)) return value
    return value.map((item) => removeReadOnlyInside(item, read?.items, input?.items))
  }
  const isNested = isObject(value) && read?.properties && input?.properties
  return isNested ? removeReadOnly(value, read, input) : value
}

/** Segments of a path that are looked up. No schema is that deep, but a client may send a name with many dots. */
const MAX_PATH_SEGMENTS = 20

/** Returns the schema at one segment of a path. `toString` and the like are own properties of no schema. */
const getSubschema = (schema: TSchema | undefined, segment: string): TSchema | undefined => {
  if (!schema?.properties) return schema?.items
  return Object.hasOwn(schema.properties, segment) ? schema.properties[segment] : undefined
}

/** Returns whether a path names a field that can be read: in a body, it is read-only rather than unknown. */
function isReadable(read: TObject, path: readonly string[]): boolean {
  let schema: TSchema | undefined = read
  for (const segment of path) schema = getSubschema(schema, segment)
  return schema !== undefined
}

const toReadOnly = (field: string): Violation => ({ field, message: 'is read-only', code: 'READ_ONLY' })

/** Compares an id that was sent with the stored one, in any letter case. */
const isSameId = (sent: unknown, known: unknown) =>
  (typeof sent === 'string' ? sent.toLowerCase() : sent) === known

export interface BodyOptions {
  ajv: Ajv
  /** The schema of a response. */
  read: TObject
  /** The fields that a body may have. */
  input: TObject
  mode: Mode
  /** Checks what the schema cannot express. It gets only fields that are valid by themselves. */
  check?: ((body: Fields, mode: Mode) => Violation[]) | undefined
  /** Fields that PUT keeps if they are absent, in place of their defaults. */
  kept?: readonly string[] | undefined
  /** Fields that identify the resource, which PUT may repeat but not change. */
  identity?: readonly string[]
}

interface ReadOptions {
  /** The fields whose values follow from the address. */
  known?: Readonly<Fields>
  /** The fields that this caller may not set. */
  withheld?: readonly string[] | undefined
}

/** Creates the functions that read the bodies of one operation. */
export function createBodyReader({ ajv, read, input, mode, check, kept = [], identity = [] }: BodyOptions) {
  const schema = toBodySchema(input, mode)
  const validate = compileSchema(ajv, schema)
  // A merged object has to be as valid as one that was sent whole.
  const validateMerged = compileSchema(ajv, { ...toBodySchema(input, 'create'), required: [] })
  const fillDefaults = createDefaults(input, mode === 'replace' ? kept : [])

  const markReadOnly = (violation: Violation): Violation =>
    violation.code === 'UNKNOWN_FIELD' && isReadable(read, violation.field.split('.', MAX_PATH_SEGMENTS))
      ? toReadOnly(violation.field)
      : violation

  const findViolations = ({ value, violations: normalizing, unread }: Normalized): Violation[] => {
    // No more are reported, so the rest of the body is not validated.
    if (normalizing.length >= MAX_VIOLATIONS) return normalizing.map(markReadOnly)
    const isValid = validate(value)
    if (isValid && normalizing.length === 0) return check?.(value, mode) ?? []
    const validating = isValid ? [] : toViolations(validate.errors ?? [])
    const found = deduplicate([...normalizing, ...validating.filter(({ field }) => !unread.has(field))])
    const violations = found.map(markReadOnly)
    if (!check) return violations
    const invalid = new Set(violations.map(({ field }) => field.split('.', 1)[0]))
    const valid = Object.fromEntries(Object.entries(value).filter(([name]) => !invalid.has(name)))
    return [...violations, ...check(valid, mode)]
  }

  const findIdentityChanges = (sent: Readonly<Fields>, known: Readonly<Fields>): Violation[] =>
    identity
      .filter((name) => name in sent && name in known && !isSameId(sent[name], known[name]))
      .map((field) => ({ field, message: 'cannot be changed', code: 'READ_ONLY' }))

  return {
    schema,

    /**
     * Returns the normalized fields of a body; with defaults, unless it is a PATCH.
     * @throws ApiError 422 with all violations of the fields and of the envelope around them
     */
    read({ members, prefix, violations: envelope }: ReadBody, options: ReadOptions = {}): Fields {
      const { known = {}, withheld = [] } = options
      const isReplace = mode === 'replace'
      const normal = normalize(isReplace ? removeReadOnly(members, read, input) : members, schema)
      const violations: Violation[] = [
        ...withheld.filter((name) => name in members).map(toReadOnly),
        ...(isReplace ? findIdentityChanges(members, known) : []),
        ...findViolations(normal),
      ]
      if (envelope.length > 0 || violations.length > 0) {
        throw invalidBody([
          ...envelope,
          ...violations.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
        ])
      }
      return mode === 'update' ? normal.value : fillDefaults(normal.value)
    },

    /**
     * Checks the objects that a patch was merged into.
     * @throws ApiError 422
     */
    checkMerged(merged: Fields) {
      if (!validateMerged(merged)) throw invalidBody(toViolations(validateMerged.errors ?? []))
    },

    /** Returns the fields of a row that a client can write. */
    toWritable: (row: Fields) => removeReadOnly(row, read, input),
  }
}

export type BodyReader = ReturnType<typeof createBodyReader>
