/** Compiles definitions to resources, once at the start: relations and parents, statements and row mappers. */
import { getRowParts } from '@resource-api/database/key'
import type { PgTable } from 'drizzle-orm/pg-core'
import { checkDefinitions } from './check/definitions.ts'
import type { ResourceDefinition } from './definition/definition.ts'
import { addInverses } from './definition/inverses.ts'
import type { Resource } from './definition/resource.ts'
import { addRoleViews, buildSchemas, listKept } from './definition/role-schemas.ts'
import type { Recorders } from './outbox/recorder.ts'
import { createRowMapper } from './response/response-builder.ts'
import { hasExclusion, nameCollections } from './sql/constraint-errors.ts'
import { createDrawId } from './sql/draw-id.ts'
import { getColumns } from './sql/row-content.ts'
import { createSelect } from './sql/select.ts'
import { type Catalog, getIndexes, getKeyColumns, getUniqueColumns, listSentKeys } from './sql/table-facts.ts'
import { createStores } from './sql/write.ts'

/**
 * Compiles all resources of an app.
 * @param recorders records the changes; without, no events are written
 * @param catalog the constraints that the database has; without, those that the tables declare are known
 * @throws Error with all mistakes in the definitions
 */
export function compileResources(
  given: readonly ResourceDefinition[],
  recorders: Recorders = new Map(),
  catalog: Catalog = new Map(),
): Resource[] {
  const definitions = addInverses(given)
  checkDefinitions(definitions)
  // Resources refer to each other, so all of them exist before the first one is filled.
  const pairs = definitions.map((definition) => ({ definition, resource: {} as Resource }))
  const byName = new Map(pairs.map(({ definition, resource }) => [definition.name, resource]))
  const byTable = new Map<PgTable, Resource>(
    pairs.map(({ definition, resource }) => [definition.table, resource]),
  )
  const collections = nameCollections(definitions)
  for (const { definition, resource } of pairs) {
    const { relations, parent, ...declared } = definition
    const constraints = catalog.get(declared.table)
    const table = { ...declared, ...(constraints && { catalog: constraints }) }
    const parentResource = parent && byName.get(parent.to)
    Object.assign(resource, {
      ...table,
      schemas: buildSchemas(definition),
      kept: listKept(definition),
      hidden: [],
      readOnly: [],
      code: {},
      relations: Object.fromEntries(
        Object.entries(relations).flatMap(([name, relation]) => {
          const to = byTable.get(relation.to)
          return to ? [[name, { ...relation, to }]] : []
        }),
      ),
      ...(parent && parentResource && { parent: { ...parent, to: parentResource } }),
      references: listSentKeys(definition).flatMap(({ fields, foreignTable, foreign }) => {
        const to = byTable.get(foreignTable)
        const [[field], [column]] = [fields, foreign]
        return to && field && column ? [{ field, to, foreign: column }] : []
      }),
      resources: byTable,
      hasExclusion: hasExclusion(table),
      columns: getColumns(declared.table),
      rowParts: getRowParts(declared.table),
      drawId: createDrawId(declared.table),
      uniqueColumns: getUniqueColumns(declared.table),
      keyColumns: getKeyColumns(table),
      indexes: getIndexes(declared.table),
    } satisfies Omit<Resource, 'forRole' | 'select' | 'stores' | 'toEntity'>)
    resource.select = createSelect(resource)
    resource.stores = createStores(resource, recorders, collections)
    resource.toEntity = createRowMapper(resource)
  }
  for (const { resource } of pairs) addRoleViews(resource)
  return pairs.map(({ resource }) => resource)
}
