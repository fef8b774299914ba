/** Reads the resources of the service, which a new one may refer to. */
import * as tables from '../../drizzle/tables.ts'
import type { Rule } from '../../plugins/access/index.ts'
import { listDefinitions } from '../../src/app.ts'

export interface Registered {
  /** The name in paths: `user-profiles`. */
  name: string
  /** `UserProfile` */
  singular: string
  /** `UserProfiles` */
  plural: string
  /** The export of `drizzle/tables.ts`; undefined for the tables of credentials. */
  table: string | undefined
  isNested: boolean
  /** The rows that members may read, and so refer to. Default: all. */
  memberReads?: Rule
}

/** Returns all registered resources, those of credentials included. */
export function listRegistered(): Registered[] {
  const exported: [string, unknown][] = Object.entries(tables)
  return listDefinitions().map((resource) => ({
    name: resource.name,
    singular: resource.singular,
    plural: resource.plural,
    table: exported.find(([, table]) => table === resource.table)?.[0],
    isNested: resource.parent !== undefined,
    memberReads: (resource.access.read ?? resource.access.list)?.member ?? false,
  }))
}
