/** Schemas with a title into `components.schemas` under it, so that generated clients have names for them. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../lib/is-object.ts'

export type Json = Record<string, unknown>

const mapValues = (object: Json, change: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))

/** Puts a component under its name and yields the reference to it; the same name for two things is an error. */
export function createComponents(section: string) {
  const components = new Map<string, Json>()
  /** Nearly always the same text too, which is told sooner. */
  const texts = new Map<string, string>()
  return {
    refer(name: string, component: Json): Json {
      const known = components.get(name)
      const text = JSON.stringify(component)
      if (known && texts.get(name) !== text && !isDeepStrictEqual(known, component)) {
        throw new Error(
          `Two different ${section} are called ${name}: ${JSON.stringify(known)} and ${JSON.stringify(component)}`,
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
 * A schema as the documents tell it. What only this house reads (`x-...`) is left out; `x-documented` stands in place of
 * the schema that has it, where the serializer is better served by another that means the same.
 */
export function createHoist(schemas: Components) {
  const below = (schema: Json): Json => {
    const told: Json = {}
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword.startsWith('x-')) continue
      if (keyword === 'properties' && isObject(value)) told[keyword] = mapValues(value, hoist)
      else if (keyword === 'items' || keyword === 'additionalProperties') told[keyword] = hoist(value)
      else if (keyword === 'anyOf' && Array.isArray(value)) told[keyword] = value.map(hoist)
      else told[keyword] = value
    }
    return told
  }

  /** A named type that may be null is that type, or null: the name belongs to what is there. */
  const nullable = (name: string, { default: absent, description, ...component }: Json): Json => ({
    anyOf: [schemas.refer(name, { ...component, type: 'object' }), { type: 'null' }],
    ...(absent === undefined ? {} : { default: absent }),
    ...(description === undefined ? {} : { description }),
  })

  function hoist(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    if (isObject(schema['x-documented'])) return hoist(schema['x-documented'])
    const { title, ...told } = below(schema)
    if (typeof title !== 'string') return told
    return Array.isArray(told.type) ? nullable(title, told) : schemas.refer(title, told)
  }
  return hoist
}
