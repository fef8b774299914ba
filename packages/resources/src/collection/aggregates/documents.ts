/** Builds the schema of the route of aggregates: its texts and its response. */
import {
  buildExample,
  commonFailures,
  type DocumentedResponse,
  type ResourceWriter,
  toWords,
} from '@resource-api/http/internal'
import { Integer, MAX_INTEGER, OrNull, Timestamp } from '@resource-api/http/schemas'
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { buildRouteSchema, describeAccess } from '../openapi/operations.ts'
import type { Resource } from '../resource.ts'
import { functions, isDecimal, isTime, listGroups, listMeasures, type Measure } from './query.ts'
import { MAX_GROUPS } from './statement.ts'

const DESCRIPTION =
  'Computes figures of the resources that the caller may list. Filters and `search` select them as in the list; values are ' +
  'not paginated. Groups are in the order of their values, null last; there are at most 1,000 (422). Without `group_by`, ' +
  'there is one group, also of no resources. A sum beyond 9,007,199,254,740,991 is 422. Counts as ten requests, and more ' +
  'with a search.'

const DATE = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  format: 'date',
  description: 'The first day',
  examples: ['2026-11-01'],
})

const PART_TEXTS = {
  sum: 'The sums; 0 of nothing',
  avg: 'The averages, rounded to six decimals; null of nothing',
  min: 'The least values; null of nothing',
  max: 'The greatest values; null of nothing',
}

const buildPart = (properties: TProperties, title: string, description: string) =>
  Type.Object(
    Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, Type.Optional(each)])),
    { title, description },
  )

/** Returns the schema of a measure of a field. */
function buildValue(resource: Resource, name: Exclude<Measure['function'], 'count'>, field: string): TSchema {
  const { default: _, ...schema }: TSchema = resource.schemas.read.properties[field] ?? Type.Never()
  const type = [schema.type].flat().find((each) => each !== 'null')
  if (name === 'min' || name === 'max') return OrNull({ ...schema, type })
  const { description = '' } = schema
  const example = buildExample(schema)
  if (name === 'avg') return OrNull(Type.Number({ description, examples: [Number(example)] }))
  const texts = { description, examples: [example] }
  if (isDecimal(resource, field)) return Type.String(texts)
  const options = { ...texts, minimum: -MAX_INTEGER, maximum: MAX_INTEGER }
  return type === 'integer' ? Type.Integer(options) : Type.Number(options)
}

/** Returns the schema of one group. */
function buildGroup(resource: Resource) {
  const { schemas, singular } = resource
  const measures = [...listMeasures(resource).values()]
  const fields = [...new Set([...listGroups(resource).values()].map(({ field }) => field))]
  const group = fields.map((field) => {
    const { default: _, ...schema }: TSchema = schemas.read.properties[field] ?? Type.Never()
    return [field, isTime(resource, field) ? DATE : schema]
  })
  const parts = functions.flatMap((name) => {
    const values = measures.flatMap((each) =>
      each.function === name ? [[each.field, buildValue(resource, name, each.field)]] : [],
    )
    if (values.length === 0) return []
    const title = `${singular}${name[0]?.toUpperCase()}${name.slice(1)}`
    return [[name, buildPart(Object.fromEntries(values), title, PART_TEXTS[name])]]
  })
  return Type.Object(
    {
      group: buildPart(
        Object.fromEntries(group),
        `${singular}Group`,
        'The values that the resources of the group have; empty without `group_by`',
      ),
      ...buildPart(
        {
          count: Integer(0, MAX_INTEGER, { description: 'The number of resources', examples: [3] }),
          ...Object.fromEntries(parts),
        },
        '',
        '',
      ).properties,
    },
    { title: `${singular}Aggregate`, description: 'The requested measures of a group of resources' },
  )
}

/** Returns the schema of `data` in the response. */
export const buildGroups = (resource: Resource): TSchema =>
  Type.Array(buildGroup(resource), { maxItems: MAX_GROUPS, description: 'The groups' })

export function buildAggregateSchema(resource: Resource, resourceWriter: ResourceWriter) {
  const { parent, plural, singular } = resource
  const schema = Type.Object(
    {
      data: buildGroups(resource),
      meta: Type.Object(
        { timestamp: Timestamp('The time of the response') },
        { title: 'AggregateMeta', description: 'Facts about the response' },
      ),
    },
    { title: `${singular}AggregateReply`, description: 'The figures of a collection' },
  )
  const content = { schema, examples: { [`${singular}Aggregate.whole`]: { value: buildExample(schema) } } }
  const response: Record<number, DocumentedResponse> = {
    200: { description: 'The groups', content: { 'application/json': content } },
  }
  const list = buildRouteSchema(resource, 'list', { resourceWriter, isOpen: false })
  return {
    operationId: `aggregate${plural}`,
    summary: `Compute figures of ${toWords(plural)}`,
    tags: list.tags,
    description: `${DESCRIPTION}\n\n${describeAccess(resource, 'list', false)}`,
    security: list.security,
    ...('x-required-scopes' in list && { 'x-required-scopes': list['x-required-scopes'] }),
    params: list.params,
    response,
    hideFromCollections: true,
    failures: [...commonFailures, 422, ...(parent ? [404] : [])],
  }
}
