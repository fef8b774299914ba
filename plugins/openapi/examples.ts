/** Builds examples of schemas from the examples of their members. */
import type { TSchema } from '@sinclair/typebox'
import { isObject } from '../../lib/is-object.ts'
import { exampleId } from '../../schemas/types.ts'

const examplesByFormat: Record<string, unknown> = {
  uuid: exampleId,
  'date-time': '2026-11-21T09:30:00.000Z',
  date: '2026-11-21',
  email: 'ada@example.com',
}

/** Returns a valid value for a member without an example. */
const guessValue = ({ type, format, minimum, minLength }: TSchema): unknown => {
  const [first] = [type].flat()
  if (first === 'integer' || first === 'number') return minimum ?? 0
  if (first === 'boolean') return false
  return examplesByFormat[format] ?? 'text'.padEnd(minLength ?? 0, '.')
}

/** Returns the example of a schema, or builds one from its members. Members that PUT ignores (readOnly) are left out. */
export function buildExample(schema: TSchema): unknown {
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (isObject(schema.properties)) {
    const members = Object.entries(schema.properties as Record<string, TSchema>)
    return Object.fromEntries(
      members.filter(([, { readOnly }]) => !readOnly).map(([name, member]) => [name, buildExample(member)]),
    )
  }
  if (isObject(schema.items)) return [buildExample(schema.items as TSchema)]
  if (schema.default !== undefined) return schema.default
  return Array.isArray(schema.enum) ? schema.enum[0] : guessValue(schema)
}

/** Returns a response as the serializer would send it: only the members that the schema declares. */
export function pickDeclared(value: unknown, schema: TSchema): unknown {
  if (Array.isArray(value)) return value.map((item) => pickDeclared(item, schema.items))
  if (!isObject(value) || !isObject(schema.properties)) return value
  const members = schema.properties as Record<string, TSchema>
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => {
      const member = members[name]
      return member ? [[name, pickDeclared(each, member)]] : []
    }),
  )
}

/** Replaces timestamps with a constant, so that the documents do not change between builds. */
export const fixTimestamps = (example: unknown): unknown =>
  JSON.parse(JSON.stringify(example), (name, value: unknown) =>
    name === 'timestamp' ? '2026-11-21T09:30:00.000Z' : value,
  )
