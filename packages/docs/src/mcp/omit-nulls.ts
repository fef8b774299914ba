/** Removes null where a schema has the member optional and not nullable: many clients send it for what they leave out. */
import { isObject } from '@resource-api/database/values'

type Schema = Readonly<Record<string, unknown>>

const getAlternatives = ({ oneOf, anyOf }: Schema): Schema[] =>
  [oneOf, anyOf].flatMap((each) => (Array.isArray(each) ? each.filter(isObject) : []))

/** Whether null may be valid. A schema without any of these keywords accepts every value. */
function acceptsNull(schema: Schema): boolean {
  const { type, enum: values } = schema
  if (type !== undefined) return [type].flat().includes('null')
  if (Array.isArray(values)) return values.includes(null)
  const alternatives = getAlternatives(schema)
  return alternatives.length === 0 || alternatives.some(acceptsNull)
}

/** Returns the schema that an object or array has to fit; undefined if that depends on its values. */
function getStructure(schema: Schema): Schema | undefined {
  if (schema.properties !== undefined || schema.items !== undefined) return schema
  const structures = getAlternatives(schema)
    .map(getStructure)
    .filter((each) => each !== undefined)
  return structures.length === 1 ? structures[0] : undefined
}

function omitFrom(value: unknown, schema: unknown): unknown {
  const structure = isObject(schema) ? getStructure(schema) : undefined
  if (!structure) return value
  if (Array.isArray(value)) return value.map((each) => omitFrom(each, structure.items))
  return isObject(value) ? omitNulls(value, structure) : value
}

/** @param schema of an object, without references */
export function omitNulls(value: Schema, { properties, required }: Schema): Record<string, unknown> {
  const known = new Map(Object.entries(isObject(properties) ? properties : {}))
  const isOmitted = (name: string): boolean => {
    const property = known.get(name)
    const isRequired = Array.isArray(required) && required.includes(name)
    return isObject(property) && !isRequired && !acceptsNull(property)
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => member !== null || !isOmitted(name))
      .map(([name, member]) => [name, omitFrom(member, known.get(name))]),
  )
}
