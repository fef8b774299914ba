/** Creates the reader of an operation's bodies in one version. */
import type { Ajv } from 'ajv'
import { getInputSchema } from '../openapi/inputs.ts'
import { type BodyReader, createBodyReader, createDefaults, type Mode } from '../request/body.ts'
import type { ResolvedResource } from '../resolve.ts'
import type { PublishedResource } from './published-resource.ts'

function createReader(ajv: Ajv, resource: ResolvedResource, mode: Mode): BodyReader {
  const { read } = resource.schemas
  const identity = ['id', ...(resource.parent ? [resource.parent.member] : [])]
  return createBodyReader({
    ajv,
    read,
    input: getInputSchema(resource, mode),
    mode,
    check: resource.check,
    kept: resource.kept,
    // A version may hide the id of the parent.
    identity: identity.filter((name) => Object.hasOwn(read.properties, name)),
  })
}

/** The reader checks a body by the names of the version, and returns its fields by the names of the definition. */
export function createVersionReader(
  ajv: Ajv,
  { resource, published, names }: PublishedResource,
  mode: Mode,
): BodyReader {
  const internal = createReader(ajv, resource, mode)
  if (!names) return internal
  const versioned = createReader(ajv, published, mode)
  const fillDefaults = createDefaults(resource.schemas.create)
  return {
    ...internal,
    read(body, { withheld = [], ...options } = {}) {
      const read = versioned.read(body, { ...options, withheld: names.listPublic(withheld) })
      const fields = names.toInternalFields(read)
      // A new resource has the defaults of hidden fields. PUT keeps the values of hidden fields: they stay absent.
      return mode === 'create' ? fillDefaults(fields) : fields
    },
  }
}
