/** GET on the aggregates of a collection: counts, sums, averages and limits of the rows that the caller may list. */
import { apiError } from '@resource-api/http'
import { createViolation, type FieldCode, requireCredential } from '@resource-api/http/internal'
import { MAX_INTEGER } from '@resource-api/http/schemas'
import type { Handler } from '../handlers.ts'
import { getReplica, type OperationContext } from '../operations/context.ts'
import { getListScope } from '../operations/read-page.ts'
import { listComparedRelations } from '../request/list-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import type { Resource } from '../resource.ts'
import { getTimestamps, toTimestamp } from '../response/response-builder.ts'
import { type AggregateQuery, createAggregateQuery, functions, isDecimal, isNumeric } from './query.ts'
import { type AggregateRow, createAggregateReader, MAX_GROUPS } from './statement.ts'

const refuse = (parameter: 'group_by' | 'measures', message: string, code: FieldCode = 'OUT_OF_RANGE') =>
  apiError('VALIDATION_ERROR', {
    message: 'The aggregates cannot be computed',
    violations: [createViolation(parameter, message, code)],
  })

/** Creates the function that returns a group as the response has it. @throws ApiError 422 for a sum that is too large */
function createGroupMapper(resource: Resource) {
  const timestamps = getTimestamps(resource.schemas.read)
  const toValue = (field: string, value: unknown): unknown => {
    if (value === null) return null
    if (timestamps.has(field)) return toTimestamp(String(value))
    return isNumeric(resource, field) && !isDecimal(resource, field) ? Number(value) : value
  }

  return ({ measures, groups }: AggregateQuery, row: AggregateRow) => {
    const group = groups.map(({ field, unit }, i) => {
      const value = row[`g${i}`]
      return [field, unit ? value : toValue(field, value)]
    })
    const values = measures.map((measure, i) => ({ ...measure, value: row[`m${i}`] }))
    const count = values.find((each) => each.function === 'count')
    const computed = functions.flatMap((name) => {
      const fields = values.flatMap((each) => {
        if (each.function === 'count' || each.function !== name) return []
        const { field, value } = each
        if (name === 'sum' && Math.abs(Number(value)) > MAX_INTEGER)
          throw refuse(
            'measures',
            `has a sum of ${field} beyond ${MAX_INTEGER} in a group; avg:${field} works`,
          )
        return [[field, name === 'avg' && value !== null ? Number(value) : toValue(field, value)]]
      })
      return fields.length > 0 ? [[name, Object.fromEntries(fields)]] : []
    })
    return {
      group: Object.fromEntries(group),
      ...(count && { count: count.value }),
      ...Object.fromEntries(computed),
    }
  }
}

export function createAggregateHandler({
  app: { database },
  resource,
}: OperationContext): Handler<{ Querystring: AggregateQuery }> {
  const readGroups = createAggregateReader(resource)
  const checkRole = createCheckRole(resource, createAggregateQuery)
  const toGroup = createGroupMapper(resource)

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the credential for compared relations (403).
    const { actor, parent } = readAddress(resource, request)
    checkQuery(request, checkRole)
    const { query } = request
    const { groups, list } = query
    for (const required of list.requires) requireCredential(actor, required)

    // 2. The groups of the rows that the caller may list, or no parent (404).
    const { replicas } = database
    const relations = listComparedRelations(list)
    const replica = replicas && getReplica(replicas, resource, actor, relations)
    const rows = await readGroups(replica ?? database, query, getListScope(resource, actor, parent))
    if (rows.length === 0 || groups.length === 0) await ensureParent(database, resource, parent)

    // 3. What JSON and a response can hold (422).
    if (rows.length > MAX_GROUPS) throw refuse('group_by', `makes more than ${MAX_GROUPS} groups`)
    const data = rows.map((row) => toGroup(query, row))
    reply.header('cache-control', 'no-store')
    return { data, meta: { timestamp: new Date().toISOString() } }
  }
}
