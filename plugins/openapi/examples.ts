/** Examples made of the examples that the members of a schema give. */
import type { TSchema } from '@sinclair/typebox'
import { isObject } from '../../lib/is-object.ts'
import { exampleId } from '../../schemas/types.ts'

const fallbacks: Record<string, unknown> = {
  uuid: exampleId,
  'date-time': '2026-11-21T09:30:00.000Z',
  date: '2026-11-21',
  email: 'ada@example.com',
}

/** What a member that gives no example might be. */
const guess = ({ type, format, minimum, minLength }: TSchema): unknown => {
  const [first] = [type].flat()
  if (first === 'integer' || first === 'number') return minimum ?? 0
  if (first === 'boolean') return false
  return fallbacks[format] ?? 'text'.padEnd(minLength ?? 0, '.')
}

/** An example of a schema, of its own or made of those of its members; what PUT only ignores is left out. */
export function exampleOf(schema: TSchema): unknown {
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (isObject(schema.properties)) {
    const members = Object.entries(schema.properties as Record<string, TSchema>)
    return Object.fromEntries(
      members.filter(([, { readOnly }]) => !readOnly).map(([name, member]) => [name, exampleOf(member)]),
    )
  }
  if (isObject(schema.items)) return [exampleOf(schema.items as TSchema)]
  if (schema.default !== undefined) return schema.default
  return Array.isArray(schema.enum) ? schema.enum[0] : guess(schema)
}

/** A reply as the serializer would send it: members that the schema does not declare stay here. */
export function declared(value: unknown, schema: TSchema): unknown {
  if (Array.isArray(value)) return value.map((item) => declared(item, schema.items))
  if (!isObject(value) || !isObject(schema.properties)) return value
  const members = schema.properties as Record<string, TSchema>
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => {
      const member = members[name]
      return member ? [[name, declared(each, member)]] : []
    }),
  )
}

/** At a moment that never changes, so that the documents do not either. */
export const dated = (told: unknown): unknown =>
  JSON.parse(JSON.stringify(told), (name, value: unknown) =>
    name === 'timestamp' ? '2026-11-21T09:30:00.000Z' : value,
  )
