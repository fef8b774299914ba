/**
 * Converts the schemas of routes to those of a document, which client generators and other validators know. Those with a
 * name become components, to which operations refer.
 */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'

export type Json = Record<string, unknown>

const SECTIONS = ['schemas', 'parameters', 'examples', 'responses', 'headers'] as const
type Section = (typeof SECTIONS)[number]

export class Components {
  readonly #sections = new Map(SECTIONS.map((section) => [section, new Map<string, Json>()]))

  /** Adds a component. Returns the reference to it. @throws Error if another component has this name */
  add(section: Section, name: string, component: Json): Json {
    const known = this.#sections.get(section)?.get(name)
    if (known && known !== component && !isDeepStrictEqual(known, component)) {
      throw new Error(
        `Two different ${section} have the name ${name}: ${JSON.stringify(known)} and ${JSON.stringify(component)}`,
      )
    }
    this.#sections.get(section)?.set(name, component)
    return { $ref: `#/components/${section}/${name}` }
  }

  /** Adds the component that `build` returns, unless there is one with this name. Returns the reference to it. */
  addOnce(section: Section, name: string, build: () => Json): Json {
    return this.add(section, name, this.#sections.get(section)?.get(name) ?? build())
  }

  /** Returns the sections, with the components of each sorted by name. */
  getAll(): Json {
    const sections = [...this.#sections].map(([section, components]) => {
      const sorted = [...components].sort(([a], [b]) => (a < b ? -1 : 1))
      return [section, Object.fromEntries(sorted)]
    })
    return Object.fromEntries(sections)
  }
}

/** The documented keywords of the formats that only this service has. */
export const documentedFormats: Record<string, Json> = {
  'iso-4217': { pattern: '^[A-Z]{3}$', maxLength: 3 },
  'https-uri': { format: 'uri', pattern: '^[hH][tT][tT][pP][sS]://' },
  'time-zone': { pattern: '^[A-Za-z][A-Za-z0-9_+/-]*$', maxLength: 64 },
  'date-or-time': { pattern: '^\\d{4}-\\d{2}-\\d{2}(?:[Tt][0-9:.]+(?:[Zz]|[+-]\\d{2}:\\d{2}))?$' },
  'uuid-or-me': {},
  'bcp-47': { pattern: '^[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*$' },
}

/** Replaces a format that only this service has by standard keywords. */
function documentFormat(schema: Json): Json {
  const { format, ...rest } = schema
  const documented = typeof format === 'string' ? documentedFormats[format] : undefined
  return documented ? { ...rest, ...documented } : schema
}

const MAX_INT32 = 2_147_483_647

/** Adds the format of integers that need more than 32 bits, since many generators write a 32-bit type without it. */
function documentSize(schema: Json): Json {
  const { type, format, enum: values, minimum = 0, maximum = Number.POSITIVE_INFINITY } = schema
  const isPlain = [type].flat().includes('integer') && format === undefined && values === undefined
  const isLarge = Number(maximum) > MAX_INT32 || Number(minimum) < -MAX_INT32 - 1
  return isPlain && isLarge ? { ...schema, format: 'int64' } : schema
}

/** Text of one line. Written with `\x`, which all regular expression languages have. */
export const LINE = '^[^\\x00-\\x1f\\x7f-\\x9f]*$'
/** Text with newlines and tabs. */
export const LINES = '^(?:[^\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]|\\r\\n)*$'

const isText = ({ type, enum: values, const: value, pattern, format }: TSchema) =>
  [type].flat().includes('string') && !values && !value && !pattern && !format

/**
 * Documents what the server does with the fields of a body: texts have no control characters, which `normalize` refuses, and
 * defaults stand in words. With the keyword, openapi-typescript makes the field required, and clients that validate with Zod
 * send it.
 */
export function documentBody(schema: TSchema): TSchema {
  const { default: value, description = '', items, anyOf, properties } = schema
  const hasDefault = value !== undefined && value !== null
  return {
    ...schema,
    ...(hasDefault && { default: undefined, description: `${description}. Default: \`${value}\`` }),
    ...(isText(schema) && { pattern: schema['x-multiline'] ? LINES : LINE }),
    ...(items && { items: documentBody(items) }),
    ...(anyOf && { anyOf: anyOf.map(documentBody) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries<TSchema>(properties).map(([name, property]) => [name, documentBody(property)]),
      ),
    }),
  }
}

const UNIONS = ['anyOf', 'oneOf', 'allOf']

/** Stands in for the components where a schema must have no references: each schema stands where it is used. */
export const inlined: Pick<Components, 'add'> = { add: (_section, _name, component) => component }

/**
 * Returns a function that converts a schema to its documented form: schemas with a title become references to components,
 * and internal keywords (`x-...`) are removed. A schema with `x-documented` is replaced by it: the schema itself is written
 * for the validator or the serializer, and `x-documented` is an equivalent one for readers.
 * @param options.isExact whether the schema itself is wanted, as the serializer has it
 * @param options.hasSizes whether large integers have the format `int64`, which JSON Schema does not define
 */
export function createSchemaDocumenter(
  components: Pick<Components, 'add'>,
  { isExact = false, hasSizes = false }: { isExact?: boolean; hasSizes?: boolean } = {},
) {
  const convertKeyword = ([keyword, value]: [string, unknown]): [string, unknown][] => {
    // Bodies have whole examples; those of their fields would repeat them.
    if (keyword.startsWith('x-') || keyword === 'examples') return []
    // A field that is absent is null, as its description or type says.
    if (keyword === 'default' && (value === null || value === undefined)) return []
    // Client generators support `enum` better than `const`.
    if (keyword === 'const') return [['enum', [value]]]
    if (keyword === 'properties' && isObject(value)) {
      const properties = Object.entries(value).map(([name, property]) => [name, document(property)])
      return [[keyword, Object.fromEntries(properties)]]
    }
    if (keyword === 'items' || keyword === 'additionalProperties') return [[keyword, document(value)]]
    // The alternatives of every union of this API exclude each other, and `oneOf` says so.
    if (UNIONS.includes(keyword) && Array.isArray(value)) {
      return [[keyword === 'anyOf' ? 'oneOf' : keyword, value.map(document)]]
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
    const reference = components.add('schemas', title, component)
    return {
      ...(isNullable ? { oneOf: [reference, { type: 'null' }] } : reference),
      ...((isNullable || values !== undefined) && description !== undefined && { description }),
      ...(defaultValue !== undefined && { default: defaultValue }),
    }
  }

  function document(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    if (schema['x-documented'] && !isExact) return document(schema['x-documented'])
    const { title, ...converted }: Json = Object.fromEntries(
      Object.entries(documentFormat(schema)).flatMap(convertKeyword),
    )
    const documented = hasSizes ? documentSize(converted) : converted
    return typeof title === 'string' ? addTitled(title, documented) : documented
  }
  return document
}
