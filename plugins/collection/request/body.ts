/** Bodies: from what was sent to members that the schema lets through, with all that is wrong said at once. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import { isObject } from '../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { invalidBody } from '../../errors/index.ts'
import { deduplicate, toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import { DEFAULT_MAX_ITEMS, normalize } from './normalize.ts'

/** How a body is meant: as a new resource, in place of one, or as a change of one (RFC 7396). */
export type Mode = 'create' | 'replace' | 'update'

const hasDefault = (schema: TSchema) => schema.default !== undefined

const isObjectSchema = (schema: TSchema): schema is TObject => isObject(schema.properties)

/** The schema of an object on its way in: closed, and with nothing required that has a default. */
export function accepting(schema: TObject, mode: Mode): TObject {
  const properties = Object.fromEntries(
    Object.entries(schema.properties).map(([name, member]) => [name, acceptingMember(member, mode)]),
  )
  const required =
    mode === 'update'
      ? []
      : (schema.required ?? []).filter((name) => {
          const member = schema.properties[name]
          return member !== undefined && !hasDefault(member)
        })
  return { ...schema, properties, additionalProperties: false, required }
}

function acceptingMember(member: TSchema, mode: Mode): TSchema {
  const { default: filled, ...rest } = member
  const kept = mode === 'update' || filled === undefined ? rest : member
  if (isObjectSchema(member)) return { ...kept, ...accepting(member, mode), type: member.type }
  // An array is replaced as a whole, by a change too.
  if (isObject(member.items)) return { ...kept, items: acceptingMember(member.items as TSchema, 'create') }
  return kept as TSchema
}

const fillable = new WeakMap<TSchema, readonly [string, TSchema][]>()

/** The members of a schema that have a default, or have members that may. */
function fillableOf(schema: TSchema): readonly [string, TSchema][] {
  const known = fillable.get(schema)
  if (known) return known
  const properties: Record<string, TSchema> = schema.properties ?? {}
  const found = Object.entries(properties).filter(
    ([, member]) => hasDefault(member) || isObjectSchema(member),
  )
  fillable.set(schema, found)
  return found
}

/** Fills in the defaults of what is absent; `except` names members that stay absent. */
export function fill(schema: TSchema, value: Record<string, unknown>, except: ReadonlySet<string>) {
  const filled: Record<string, unknown> = { ...value }
  for (const [name, member] of fillableOf(schema)) {
    const given = filled[name]
    if (given === undefined) {
      if (hasDefault(member) && !except.has(name)) filled[name] = member.default
    } else if (isObject(given) && isObjectSchema(member)) filled[name] = fill(member, given, new Set())
  }
  return filled
}

/** Merges a change into what there is (RFC 7396): members of objects one by one, null removes. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = mergePatch(merged[name], value)
  }
  return merged
}

/** Names of `Object.prototype` are no members: `toString` is unknown like any other. */
const memberOf = (schema: TSchema | undefined, segment: string): TSchema | undefined =>
  schema?.properties
    ? Object.hasOwn(schema.properties, segment)
      ? schema.properties[segment]
      : undefined
    : schema?.items

/** What PUT ignores: the members that can be read and not written, so that what was read can be put back. */
function withoutReadOnly(value: unknown, read: TSchema | undefined, input: TSchema | undefined): unknown {
  if (Array.isArray(value)) {
    // One that is refused for its length is not walked through.
    if (value.length > (input?.maxItems ?? DEFAULT_MAX_ITEMS)) return value
    return value.map((item) => withoutReadOnly(item, read?.items, input?.items))
  }
  if (!isObject(value) || !read?.properties || !input?.properties) return value
  const kept = Object.entries(value).filter(
    ([name]) => Object.hasOwn(input.properties, name) || !Object.hasOwn(read.properties, name),
  )
  return Object.fromEntries(
    kept.map(([name, member]) => [
      name,
      withoutReadOnly(member, read.properties[name], input.properties[name]),
    ]),
  )
}

/** Segments of a path that are looked at: no schema is that deep, and a client may send a name of many dots. */
const MAX_PATH = 20

/** Whether a path leads to a member that can be read: then it is read-only, not unknown. */
function isReadable(read: TObject, path: readonly string[]): boolean {
  let schema: TSchema | undefined = read
  for (const segment of path) schema = memberOf(schema, segment)
  return schema !== undefined
}

export interface BodyOptions {
  ajv: Ajv
  read: TObject
  input: TObject
  mode: Mode
  check?: ((body: Record<string, unknown>, mode: Mode) => Violation[]) | undefined
  kept?: readonly string[] | undefined
  /** Members that name the resource, which PUT may repeat and never change. */
  identity?: readonly string[]
}

/** Reads the bodies of one operation. */
export function createBodyReader({ ajv, read, input, mode, check, kept = [], identity = [] }: BodyOptions) {
  const schema = accepting(input, mode)
  const validate = compileSchema(ajv, schema)
  // Members that a change was merged into must hold as if they had been sent whole.
  const validateMerged = compileSchema(ajv, { ...accepting(input, 'create'), required: [] })
  const absentStays = new Set(mode === 'replace' ? kept : [])

  const withReadOnly = (violation: Violation): Violation =>
    violation.code === 'UNKNOWN_FIELD' && isReadable(read, violation.field.split('.', MAX_PATH))
      ? { ...violation, message: 'is read-only', code: 'READ_ONLY' }
      : violation

  const violationsOf = (
    value: Record<string, unknown>,
    before: readonly Violation[],
    unread: ReadonlySet<string>,
  ): Violation[] => {
    // As many as are reported: what is left of the body is not even validated.
    if (before.length >= MAX_VIOLATIONS) return before.map(withReadOnly)
    const isSound = validate(value)
    if (isSound && before.length === 0) return check?.(value, mode) ?? []
    const found = isSound ? [] : toViolations(validate.errors ?? []).filter(({ field }) => !unread.has(field))
    const structural = deduplicate([...before, ...found]).map(withReadOnly)
    if (!check) return structural
    const unsound = new Set(structural.map(({ field }) => field.split('.', 1)[0]))
    const sound = Object.fromEntries(Object.entries(value).filter(([name]) => !unsound.has(name)))
    return [...structural, ...check(sound, mode)]
  }

  /** Ids are the same in any letter case. */
  const differs = (sent: unknown, known: unknown) =>
    (typeof sent === 'string' ? sent.toLowerCase() : sent) !== known

  return {
    schema,
    /**
     * @param known the members whose values the path or the row already tells
     * @throws ApiError 422 with every violation
     */
    read(
      sent: unknown,
      prefix: string,
      known: Readonly<Record<string, unknown>> = {},
    ): Record<string, unknown> {
      if (!isObject(sent))
        throw invalidBody([{ field: prefix, message: 'must be an object', code: 'INVALID_TYPE' }])
      const changed =
        mode === 'replace'
          ? identity.filter((name) => name in sent && name in known && differs(sent[name], known[name]))
          : []
      const members = mode === 'replace' ? withoutReadOnly(sent, read, input) : sent
      const { value, violations, unread } = normalize(members, schema)
      const object = isObject(value) ? value : {}
      const all = [
        ...changed.map(
          (name): Violation => ({ field: name, message: 'cannot be changed', code: 'READ_ONLY' }),
        ),
        ...violationsOf(object, violations, unread),
      ]
      if (all.length > 0) throw invalidBody(all.map((each) => ({ ...each, field: `${prefix}${each.field}` })))
      return mode === 'update' ? object : fill(input, object, absentStays)
    },
    /** What is wrong with a resource after a change was merged into it: what no look at the change alone could tell. */
    checkMerged(merged: Record<string, unknown>) {
      if (!validateMerged(merged)) throw invalidBody(toViolations(validateMerged.errors ?? []))
    },
    /** A row as a client could have sent it: without what the server adds to it. */
    writable: (row: Record<string, unknown>) => withoutReadOnly(row, read, input) as Record<string, unknown>,
  }
}

export type BodyReader = ReturnType<typeof createBodyReader>

/** A schema with members that PUT may repeat. */
export const repeating = (schema: TObject, read: TObject, names: readonly string[]): TObject =>
  Type.Object(
    {
      ...Object.fromEntries(
        names.flatMap((name) => {
          const member = read.properties[name]
          return member ? [[name, Type.Optional(member)]] : []
        }),
      ),
      ...schema.properties,
    },
    { title: schema.title ?? '' },
  )
