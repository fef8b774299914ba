/** Collects the components of a document. Operations refer to them by name, as generated clients do. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../lib/is-object.ts'

export type Json = Record<string, unknown>

/** Creates one section of the components. */
function createSection(section: string) {
  const components = new Map<string, Json>()
  return {
    get: (name: string) => components.get(name),
    /** Adds a component unless there is one with this name. Returns the reference to it. */
    add(name: string, build: () => Json): Json {
      if (!components.has(name)) components.set(name, build())
      return { $ref: `#/components/${section}/${name}` }
    },
    getAll: (): Json => Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

/**
 * Returns a function that converts a schema to its documented form: schemas with a title become references to components,
 * and internal keywords (`x-...`) are removed. A schema with `x-documented` is replaced by it: the schema itself is written
 * for the serializer, and `x-documented` is an equivalent one for readers.
 */
function createSchemaExtractor(addSchema: (name: string, component: Json) => Json) {
  const convertKeyword = ([keyword, value]: [string, unknown]): [string, unknown][] => {
    if (keyword.startsWith('x-')) return []
    // Client generators support `enum` better than `const`.
    if (keyword === 'const') return [['enum', [value]]]
    if (keyword === 'properties' && isObject(value)) {
      const properties = Object.entries(value).map(([name, property]) => [name, extract(property)])
      return [[keyword, Object.fromEntries(properties)]]
    }
    if (keyword === 'items' || keyword === 'additionalProperties') return [[keyword, extract(value)]]
    if (keyword === 'anyOf' && Array.isArray(value)) return [[keyword, value.map(extract)]]
    return [[keyword, value]]
  }

  /** Converts a titled type that may be null to a union of the titled type and null. */
  const toNullable = (name: string, { default: defaultValue, description, ...component }: Json): Json => ({
    anyOf: [addSchema(name, { ...component, type: 'object' }), { type: 'null' }],
    ...(defaultValue !== undefined && { default: defaultValue }),
    ...(description !== undefined && { description }),
  })

  function extract(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    if (schema['x-documented']) return extract(schema['x-documented'])
    const { title, ...component }: Json = Object.fromEntries(Object.entries(schema).flatMap(convertKeyword))
    if (typeof title !== 'string') return component
    return Array.isArray(component.type) ? toNullable(title, component) : addSchema(title, component)
  }
  return extract
}

export function createComponents() {
  const schemas = createSection('schemas')
  const responses = createSection('responses')
  const headers = createSection('headers')

  /** @throws Error if another schema has this name */
  const addSchema = (name: string, schema: Json): Json => {
    const known = schemas.get(name)
    if (known && !isDeepStrictEqual(known, schema)) {
      throw new Error(
        `Two different schemas have the name ${name}: ${JSON.stringify(known)} and ${JSON.stringify(schema)}`,
      )
    }
    return schemas.add(name, () => schema)
  }
  return {
    extractSchemas: createSchemaExtractor(addSchema),
    addResponse: responses.add,
    addHeader: headers.add,
    getAll: (): Json => ({
      schemas: schemas.getAll(),
      responses: responses.getAll(),
      headers: headers.getAll(),
    }),
  }
}

export type Components = ReturnType<typeof createComponents>
