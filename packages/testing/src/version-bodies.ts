/** Makes the bodies of a version in which a collection has other fields, from those with the fields of the collection. */
import { isDeepStrictEqual } from 'node:util'
import type { Verb } from '@resource-api/api/rules'
import type { Representation } from '@resource-api/api/versions'
import type { ResourceDefinition } from '@resource-api/resources/internal'
import type { Json } from './client.ts'
import type { createOwnedRows } from './example-rows.ts'

type OwnedRows = ReturnType<typeof createOwnedRows>
type WriteMode = Extract<Verb, 'create' | 'replace' | 'update'>

const getSchema = ({ schemas }: ResourceDefinition, mode: WriteMode) =>
  mode === 'create' ? schemas.create : schemas.change

/** Returns whether a version has other fields of a collection. */
export function hasOtherFields({ schemas }: Representation, definition: ResourceDefinition): boolean {
  const own = getSchema(definition, 'create')
  return schemas.fields(own, definition.name, 'create') !== own
}

/** Returns a valid body in the fields of a version. */
export async function buildVersionBody(
  rows: OwnedRows,
  representation: Representation,
  definition: ResourceDefinition,
  mode: WriteMode,
  owner: string,
): Promise<Json> {
  const { name } = definition
  const builders = { create: rows.creation, replace: rows.replacement, update: rows.change }
  const body = await builders[mode](name, owner)
  if (!hasOtherFields(representation, definition)) return body

  const schema: Json = representation.schemas.fields(getSchema(definition, mode), name, mode)
  const example = () => rows.substitute(name, schema.examples[0], owner)
  const isWritten = (member: string) =>
    member in schema.properties && schema.properties[member]['x-ignored'] !== true
  const toVersion = (members: Json): [string, unknown][] =>
    Object.entries(representation.members({ type: name, members })).filter(
      ([member, value]) => isWritten(member) && value !== undefined,
    )
  if (mode !== 'update') {
    const mapped = Object.fromEntries(toVersion(body))
    const isWhole = (schema.required ?? []).every((member: string) => member in mapped)
    // The version may require what the collection does not.
    return isWhole ? mapped : { ...(await example()), ...mapped }
  }

  // A field of the version may be made of several of the collection, of which the change has one.
  const whole = await rows.replacement(name, owner)
  const before = Object.fromEntries(toVersion(whole))
  const changed = toVersion({ ...whole, ...body }).filter(
    ([member, value]) => !isDeepStrictEqual(value, before[member]),
  )
  // The version may lack the field.
  return changed.length > 0 ? Object.fromEntries(changed) : example()
}
