/** A resource by the names of its definition, and by the names that one version publishes. */
import type { ResolvedResource } from '../resolve.ts'
import type { FieldNames } from './field-names.ts'

/** If the fields do not differ in the version, `published` is `resource`. */
export interface PublishedResource {
  /** With the names of the definition: for SQL, actions and checks. */
  resource: ResolvedResource
  /** With the names of the version: for bodies, query strings and OpenAPI. */
  published: ResolvedResource
  /** Undefined if the fields of the resource do not differ in the version. */
  names: FieldNames | undefined
}
