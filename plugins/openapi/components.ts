/** Moves schemas with a title to `components.schemas`, so that generated clients have named types. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../lib/is-object.ts'

export type Json = Record<string, unknown>

const mapValues = (object: Json, map: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]))

/** Collects the components of one section. `refer` adds a component and returns the reference to it. */
export function createComponents(section: string) {
  const components = new Map<string, Json>()
  /** The components as JSON: equal components nearly always have equal texts, which are faster to compare. */
  const texts = new Map<string, string>()
  return {
    /** @throws Error if another component has this name */
    refer(name: string, component: Json): Json {
      const known = components.get(name)
      const text = JSON.stringify(component)
      if (known && texts.get(name) !== text && !isDeepStrictEqual(known, component)) {
        throw new Error(
          `Two different ${section} have the name ${name}: ${JSON.stringify(known)} and ${JSON.stringify(component)}`,
        )
      }
      components.set(name, component)
      texts.set(name, text)
      return { $ref: `#/components/${section}/${name}` }
    },
    all: (): Json => Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

export type Components = ReturnType<typeof createComponents>

/**
 * Returns a function that converts a schema to its documented form: titled schemas become references to components, and
 * internal keywords (`x-...`) are removed. A schema with `x-documented` is replaced by it: the schema itself is written for
 * the serializer, and `x-documented` is an equivalent one for readers.
 */
export function createComponentExtractor(schemas: Components) {
  const convertKeywords = (schema: Json): Json => {
    const converted: Json = {}
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword.startsWith('x-')) continue
      if (keyword === 'properties' && isObject(value))
        converted[keyword] = mapValues(value, extractComponents)
      else if (keyword === 'items' || keyword === 'additionalProperties')
        converted[keyword] = extractComponents(value)
      else if (keyword === 'anyOf' && Array.isArray(value)) converted[keyword] = value.map(extractComponents)
      else converted[keyword] = value
    }
    return converted
  }

  /** Converts a titled type that may be null to a union of the titled type and null. */
  const toNullable = (name: string, { default: defaultValue, description, ...component }: Json): Json => ({
    anyOf: [schemas.refer(name, { ...component, type: 'object' }), { type: 'null' }],
    ...(defaultValue === undefined ? {} : { default: defaultValue }),
    ...(description === undefined ? {} : { description }),
  })

  function extractComponents(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    if (isObject(schema['x-documented'])) return extractComponents(schema['x-documented'])
    const { title, ...component } = convertKeywords(schema)
    if (typeof title !== 'string') return component
    return Array.isArray(component.type) ? toNullable(title, component) : schemas.refer(title, component)
  }
  return extractComponents
}
