/** Reads the resources of an application from its sources: a new one may refer to them. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { userProfiles, users } from '@resource-api/database'
import { addInverses, type ResourceDefinition } from '@resource-api/resources/internal'
import { getTableName, is } from 'drizzle-orm'
import { PgTable } from 'drizzle-orm/pg-core'
import { UsageError } from '../usage-error.ts'
import type { KnownResource } from './resource-plan.ts'

/** What a new resource has to know of an application. */
interface KnownApplication {
  resources: KnownResource[]
  /** The tables without a resource, by their names in SQL, and the names of their exports. */
  names: ReadonlySet<string>
}

/**
 * Loads the modules of the application, which are TypeScript: the process has a loader for it.
 * @throws UsageError if the folder has no application
 */
export async function readApplication(root: string): Promise<KnownApplication> {
  const [own, tables] = ['src/resources.ts', 'drizzle/index.ts'].map((path) => join(root, path))
  if (!own || !tables || !existsSync(own) || !existsSync(tables))
    throw new UsageError(
      `${root} has no src/resources.ts and drizzle/index.ts: run the command in the folder of an application`,
    )
  const { tableFiles }: { tableFiles: ReadonlyMap<string, object> } = await import(pathToFileURL(tables).href)
  const { listDefinitions }: { listDefinitions(): ResourceDefinition[] } = await import(
    pathToFileURL(own).href
  )
  const exported = [...tableFiles, ['@resource-api/database', { userProfiles, users }] as const].flatMap(
    ([module, values]) =>
      Object.entries(values).flatMap(([name, table]: [string, unknown]) =>
        is(table, PgTable) ? [{ name, module, sqlName: getTableName(table), table }] : [],
      ),
  )
  const definitions = listDefinitions()
  const resources = addInverses(definitions).map((resource): KnownResource => {
    const found = exported.find(({ table }) => table === resource.table)
    const { name, singular, plural, filters, access } = resource
    return {
      ...{ name, singular, plural, filters },
      table: found && { name: found.name, module: found.module, sqlName: found.sqlName },
      isNested: resource.parent !== undefined,
      relations: Object.keys(resource.relations),
      isForMembers: ((access.read ?? access.list)?.member ?? false) !== false,
    }
  })
  const views = definitions.flatMap(({ isView, table }) => (isView ? [getTableName(table)] : []))
  return {
    resources,
    names: new Set([...views, ...exported.flatMap(({ name, sqlName }) => [name, sqlName])]),
  }
}
