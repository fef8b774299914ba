/** Builds the schema of the route of aggregates: its texts and its response. */
import {
  buildExample,
  commonFailures,
  type DocumentedResponse,
  toPascalCase,
  toWords,
} from '@resource-api/api/documents'
import { Timestamp } from '@resource-api/api/schemas'
import type { ResourceWriter } from '@resource-api/api/versions'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Resource } from '../definition/resource.ts'
import { buildRouteSchema } from '../openapi/operations.ts'
import { toVersionView } from '../request/version-fields.ts'
import { listGroups, listMeasures, PARTS } from './figures.ts'
import { MAX_GROUPS } from './query.ts'

const DESCRIPTION =
  'Computes figures of the resources that the caller may list; filters and `search` select them as in the list. Groups are ' +
  `in the order of their values, null last, at most ${MAX_GROUPS.toLocaleString('en')} (422). Without \`group_by\` there is ` +
  'one, also of no resources. A sum beyond 9,007,199,254,740,991 is 422. Counts as ten requests, and as more with a search.'

/** Returns the schema of `data` in the response. */
export function buildDataSchema(resource: Resource): TSchema {
  const { singular } = resource
  const figures = [...listGroups(resource), ...listMeasures(resource)]
  const parts = Object.entries(PARTS).flatMap(([part, description]): [string, TObject][] => {
    const fields = figures.flatMap((each) =>
      each.part === part ? [[each.field, Type.Optional(each.schema)] as const] : [],
    )
    const options = { title: `${singular}${toPascalCase(part)}`, description }
    return fields.length > 0 || part === 'group'
      ? [[part, Type.Object(Object.fromEntries(fields), options)]]
      : []
  })
  const [group, ...measured] = parts
  const counts = figures.flatMap(({ part, schema }) => (part === 'count' ? [[part, schema] as const] : []))
  const optional = [...counts, ...measured].map(([part, schema]) => [part, Type.Optional(schema)] as const)
  const entry = Type.Object(Object.fromEntries([...(group ? [group] : []), ...optional]), {
    title: `${singular}Aggregate`,
    description: 'The requested measures of a group of resources',
  })
  return Type.Array(entry, { maxItems: MAX_GROUPS, description: 'The groups' })
}

export function buildAggregateSchema(resource: Resource, resourceWriter: ResourceWriter) {
  const view = toVersionView(resource, resourceWriter.mappings)
  const { plural, singular } = resource
  const meta = Type.Object(
    { timestamp: Timestamp('The time of the response') },
    { title: 'AggregateMeta', description: 'Facts about the response' },
  )
  const schema = Type.Object(
    { data: buildDataSchema(view), meta },
    { title: `${singular}AggregateReply`, description: 'The figures of a collection' },
  )
  const examples = { [`${singular}Aggregate.whole`]: { value: buildExample(schema) } }
  const response: Record<number, DocumentedResponse> = {
    200: { description: 'The groups', content: { 'application/json': { schema, examples } } },
  }
  const { headers: _, 'x-export': __, ...list } = buildRouteSchema(resource, 'list', resourceWriter)
  return {
    ...list,
    operationId: `aggregate${plural}`,
    summary: `Compute figures of ${toWords(plural)}`,
    description: DESCRIPTION,
    response,
    failures: [...commonFailures, 422, ...(resource.parent ? [404] : [])],
  }
}
