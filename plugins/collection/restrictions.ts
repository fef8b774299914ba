/** Fields that not every role may read or write, as the `fields` of a definition declare them. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { roles } from '../../schemas/roles.ts'
import { type Actor, type CallerRole, formatActor } from '../access/actor.ts'
import type { ResourceDefinition } from './definition.ts'
import type { FieldRule } from './fields.ts'

export const callerRoles: readonly CallerRole[] = [...roles, 'anonymous']

/** What a role may not do with the fields of a resource. */
interface Restriction {
  /** The fields that it may not read. */
  hidden: ReadonlySet<string>
  /** The fields that it may not write. */
  locked: ReadonlySet<string>
  /** Differs between roles that see the resource differently. Empty if the role sees all fields. */
  tag: string
}

/** The restriction of each role that has one; undefined if no role has. */
export type Restrictions = ReadonlyMap<CallerRole, Restriction> | undefined

export const mayRead = ({ read }: FieldRule, role: CallerRole): boolean => read?.includes(role) ?? true

export const mayWrite = ({ read, write = read }: FieldRule, role: CallerRole): boolean =>
  write?.includes(role) ?? true

export function createRestrictions({ fields = {} }: Pick<ResourceDefinition, 'fields'>): Restrictions {
  const rules = Object.entries(fields)
  const restrictions = new Map<CallerRole, Restriction>()
  for (const role of callerRoles) {
    const hidden = rules.flatMap(([name, rule]) => (mayRead(rule, role) ? [] : [name]))
    const locked = rules.flatMap(([name, rule]) => (mayWrite(rule, role) ? [] : [name]))
    if (hidden.length + locked.length === 0) continue
    restrictions.set(role, { hidden: new Set(hidden), locked: new Set(locked), tag: hidden.join() })
  }
  return restrictions.size === 0 ? undefined : restrictions
}

interface RestrictedResource {
  restrictions: Restrictions
}

/** Returns the fields that the caller may not read; undefined if there are none. */
export const getHidden = ({ restrictions }: RestrictedResource, { role }: Actor) =>
  restrictions?.get(role)?.hidden

/** Returns the fields that the caller may not write; undefined if there are none. */
export const getLocked = ({ restrictions }: RestrictedResource, { role }: Actor) =>
  restrictions?.get(role)?.locked

/** Returns a text that differs between roles that see the resource differently; empty for those that see all fields. */
export const getRoleTag = ({ restrictions }: RestrictedResource, { role }: Actor): string =>
  restrictions?.get(role)?.tag ?? ''

/** Returns a text that differs between callers who see the resource differently; empty for those who see all fields. */
export const getViewTag = (
  resource: RestrictedResource & Pick<ResourceDefinition, 'computed'>,
  actor: Actor,
): string => (resource.computed ? formatActor(actor) : getRoleTag(resource, actor))

const listRoles = (permitted: readonly CallerRole[]) => permitted.join(', ') || 'no role'

const describe = (property: TSchema, text: string): TSchema => {
  const { description } = property
  if (text === '') return property
  return { ...property, description: description === undefined ? text : `${description}. ${text}` }
}

const describeWriters = ({ read, write = read }: FieldRule): string =>
  write ? `Written by: ${listRoles(write)}` : ''

const describeReaders = ({ read }: FieldRule): string => (read ? `Read by: ${listRoles(read)}` : '')

/** Returns whether a body can have a field. */
export const isWritten = ({ schemas }: Pick<ResourceDefinition, 'schemas'>, name: string): boolean =>
  name in schemas.create.properties || name in schemas.change.properties

type Properties = Record<string, TSchema>
type FieldRules = Readonly<Record<string, FieldRule>>

function mapRestricted(
  properties: Properties,
  fields: FieldRules,
  restrict: (property: TSchema, rule: FieldRule, name: string) => TSchema,
): Properties {
  const mapped = Object.entries(properties).map(([name, property]) => {
    const rule = fields[name]
    return [name, rule ? restrict(property, rule, name) : property]
  })
  return Object.fromEntries(mapped)
}

/** Returns the properties of responses, which need not have a field that a role may not read. They say who may. */
const restrictRead = (
  properties: Properties,
  { fields = {}, schemas }: Pick<ResourceDefinition, 'fields' | 'schemas'>,
): Properties =>
  mapRestricted(properties, fields, (property, rule, name) => {
    const writers = isWritten({ schemas }, name) ? describeWriters(rule) : ''
    const texts = [describeReaders(rule), writers].filter((text) => text !== '')
    const described = describe(property, texts.join('. '))
    return rule.read ? Type.Optional(described) : described
  })

/** Returns the properties of bodies. They say who may write a field. */
const restrictWrite = (properties: Properties, fields: FieldRules): Properties =>
  mapRestricted(properties, fields, (property, rule) => describe(property, describeWriters(rule)))

/** Returns the properties of changes: PUT need not have a field that a role may not write. */
const restrictChange = (properties: Properties, fields: FieldRules): Properties =>
  mapRestricted(restrictWrite(properties, fields), fields, (property, rule) =>
    describeWriters(rule) ? Type.Optional(property) : property,
  )

function withProperties(schema: TObject, properties: Properties): TObject {
  const { properties: _, required: __, ...options } = schema
  return Type.Object(properties, options)
}

/** Returns the schemas for all roles. */
export function restrictSchemas(
  definition: Pick<ResourceDefinition, 'fields' | 'schemas'>,
): ResourceDefinition['schemas'] {
  const { fields, schemas } = definition
  if (!fields) return schemas
  const { read, create, change } = schemas
  return {
    read: withProperties(read, restrictRead(read.properties, definition)),
    create: withProperties(create, restrictWrite(create.properties, fields)),
    change: withProperties(change, restrictChange(change.properties, fields)),
  }
}

/** Returns the fields that PUT keeps if they are absent: those of the definition, and those that a role may not write. */
export const listKept = ({
  fields = {},
  kept = [],
  schemas,
}: Pick<ResourceDefinition, 'fields' | 'kept' | 'schemas'>): string[] => [
  ...new Set([
    ...kept,
    ...Object.entries(fields).flatMap(([name, rule]) =>
      describeWriters(rule) && name in schemas.change.properties ? [name] : [],
    ),
  ]),
]
