/** Builds examples of schemas from the examples of their fields. */
import { isObject } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'
import { exampleId } from '../schemas/types.ts'

export interface Example {
  /** Absent where the name or the value says the same. */
  summary?: string
  value: unknown
}

type Properties = Record<string, TSchema>

const EXAMPLE_TIME = '2026-11-21T09:30:00.000Z'

const examplesByFormat: Record<string, unknown> = {
  uuid: exampleId,
  'date-time': EXAMPLE_TIME,
  date: '2026-11-21',
  email: 'ada@example.com',
}

/** Returns a valid value for a field without an example. */
const guessValue = ({ type, format, minimum, minLength }: TSchema): unknown => {
  const [first] = [type].flat()
  if (first === 'integer' || first === 'number') return minimum ?? 0
  if (first === 'boolean') return false
  return examplesByFormat[format] ?? 'text'.padEnd(minLength ?? 0, '.')
}

/** Returns the example of a schema, or builds one from its fields. */
export function buildExample(schema: TSchema): unknown {
  if (schema.examples) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (schema.properties) return buildFieldExamples(schema.properties)
  if (schema.items) return [buildExample(schema.items)]
  if (schema.default !== undefined) return schema.default
  return schema.enum?.[0] ?? guessValue(schema)
}

/**
 * Returns the examples of fields, without those that have `x-in-examples: false`. A field that has another value after
 * the creation of its resource has two examples.
 * @param isCreated whether to return the first of them; otherwise the last
 */
export const buildFieldExamples = (properties: Properties, isCreated = false): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(properties)
      .filter(([, property]) => property['x-in-examples'] !== false)
      .map(([name, property]) => [
        name,
        property.examples && !isCreated ? property.examples.at(-1) : buildExample(property),
      ]),
  )

/** Returns an example of each form of a request body, by its name: typed and flat, or flat alone. */
export const buildBodyExamples = (schema: TSchema): Record<string, Example> => {
  const forms: TSchema[] = schema.anyOf ?? [schema]
  return Object.fromEntries(
    forms.map((form) => [
      `${form.title ?? 'Body'}.${form.properties?.data ? 'typed' : 'flat'}`,
      { value: buildExample(form) },
    ]),
  )
}

/** Returns a response as the serializer would send it: only the fields that the schema declares, at a constant time. */
export function buildResponseExample(value: unknown, schema: TSchema): unknown {
  if (Array.isArray(value)) return value.map((item) => buildResponseExample(item, schema.items))
  if (!isObject(value) || !schema.properties) return value
  const properties: Properties = schema.properties
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, field]) => {
      const property = properties[name]
      if (!property) return []
      return [[name, name === 'timestamp' ? EXAMPLE_TIME : buildResponseExample(field, property)]]
    }),
  )
}
