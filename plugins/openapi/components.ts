/** Collects the components of a document. Operations refer to them by name, as generated clients do. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../lib/is-object.ts'
import { documentFormat } from './strings.ts'

export type Json = Record<string, unknown>

/** Creates one section of the components. */
function createSection(section: string) {
  const components = new Map<string, Json>()
  const refer = (name: string): Json => ({ $ref: `#/components/${section}/${name}` })
  return {
    /** Adds the component that `build` returns unless there is one with this name. Returns the reference to it. */
    addOnce(name: string, build: () => Json): Json {
      if (!components.has(name)) components.set(name, build())
      return refer(name)
    },
    /**
     * Adds a component. Returns the reference to it.
     * @throws Error if another component has this name
     */
    add(name: string, component: Json): Json {
      const known = components.get(name)
      if (known && !isDeepStrictEqual(known, component)) {
        throw new Error(
          `Two different ${section} have the name ${name}: ${JSON.stringify(known)} and ${JSON.stringify(component)}`,
        )
      }
      components.set(name, component)
      return refer(name)
    },
    getAll: (): Json => Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

const UNIONS = ['anyOf', 'oneOf', 'allOf']

/**
 * Returns a function that converts a schema to its documented form: schemas with a title become references to components,
 * and internal keywords (`x-...`) are removed. A schema with `x-documented` is replaced by it: the schema itself is written
 * for the serializer, and `x-documented` is an equivalent one for readers.
 */
function createSchemaExtractor(addSchema: (name: string, component: Json) => Json) {
  const convertKeyword = ([keyword, value]: [string, unknown]): [string, unknown][] => {
    // Bodies have whole examples; those of their fields would repeat them.
    if (keyword.startsWith('x-') || keyword === 'examples') return []
    // A field that is absent is null, as its description or type says.
    if (keyword === 'default' && (value === null || value === undefined)) return []
    // Client generators support `enum` better than `const`.
    if (keyword === 'const') return [['enum', [value]]]
    if (keyword === 'properties' && isObject(value)) {
      const properties = Object.entries(value).map(([name, property]) => [name, extract(property)])
      return [[keyword, Object.fromEntries(properties)]]
    }
    if (keyword === 'items' || keyword === 'additionalProperties') return [[keyword, extract(value)]]
    // The alternatives of every union of this API exclude each other, and `oneOf` says so.
    if (UNIONS.includes(keyword) && Array.isArray(value)) {
      return [[keyword === 'anyOf' ? 'oneOf' : keyword, value.map(extract)]]
    }
    return [[keyword, value]]
  }

  /** Adds a titled schema to the components. What differs between its uses stands next to the reference. */
  function addTitled(title: string, schema: Json): Json {
    const { type, enum: values, default: defaultValue, description, ...rest } = schema
    const isNullable = Array.isArray(type)
    const component = {
      ...(type !== undefined && { type: isNullable ? type.find((each) => each !== 'null') : type }),
      ...(Array.isArray(values)
        ? { title, enum: values.filter((value) => value !== null) }
        : { ...rest, description }),
    }
    const reference = addSchema(title, component)
    return {
      ...(isNullable ? { oneOf: [reference, { type: 'null' }] } : reference),
      ...((isNullable || values !== undefined) && description !== undefined && { description }),
      ...(defaultValue !== undefined && { default: defaultValue }),
    }
  }

  function extract(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    if (schema['x-documented']) return extract(schema['x-documented'])
    const { title, ...converted }: Json = Object.fromEntries(
      Object.entries(documentFormat(schema)).flatMap(convertKeyword),
    )
    return typeof title === 'string' ? addTitled(title, converted) : converted
  }
  return extract
}

export function createComponents() {
  const schemas = createSection('schemas')
  const parameters = createSection('parameters')
  const examples = createSection('examples')
  const responses = createSection('responses')
  const headers = createSection('headers')

  return {
    extractSchemas: createSchemaExtractor(schemas.add),
    addParameter: parameters.add,
    addExample: examples.add,
    addResponse: responses.addOnce,
    addHeader: headers.addOnce,
    getAll: (): Json => ({
      schemas: schemas.getAll(),
      parameters: parameters.getAll(),
      examples: examples.getAll(),
      responses: responses.getAll(),
      headers: headers.getAll(),
    }),
  }
}

export type Components = ReturnType<typeof createComponents>
