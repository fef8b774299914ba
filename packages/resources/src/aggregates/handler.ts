/** GET on the aggregates of a collection: one statement over the rows that the caller may list. */
import { requireCredential } from '@resource-api/api/access'
import { apiError } from '@resource-api/api/errors'
import { formatRule } from '@resource-api/api/rules'
import { MAX_INTEGER } from '@resource-api/api/schemas'
import { createViolation } from '@resource-api/api/validation'
import type { Connection } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/client'
import { and, eq, sql } from 'drizzle-orm'
import type { Handler } from '../definition/handlers.ts'
import type { ListScope, Resource } from '../definition/resource.ts'
import { getReplica, type OperationContext } from '../operations/context.ts'
import { getListScope } from '../operations/read-page.ts'
import { listComparedRelations } from '../request/list-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, readAddress } from '../request/resource-address.ts'
import { type FieldNames, getFieldNames } from '../request/version-fields.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn, listConditions } from '../sql/conditions.ts'
import { type AggregateQuery, createAggregateQuery, MAX_GROUPS } from './query.ts'

type Row = Readonly<Record<string, unknown>>

/** Creates the function that reads the groups in their order, at most one more than MAX_GROUPS: figure n as `n`. */
function createGroupReader(resource: Resource, { toCollection }: FieldNames) {
  const statements = new StatementsByShape()
  const { columns, parent, table } = resource
  return (connection: Connection, { figures, list }: AggregateQuery, scope: ListScope): Promise<Row[]> => {
    const { actor, rule } = scope
    const conditions = listConditions(resource, list, actor)
    const names = [figures, conditions].map((each) => each.map(({ name }) => name))
    const build = (db: Connection) => {
      const selected = figures.map(({ field, build: toSql }, i) => {
        // The count is of no column.
        const column = getColumn(columns, field === '' ? 'id' : toCollection(field))
        return sql`${toSql(column)} as ${sql.identifier(`${i}`)}`
      })
      const where = and(
        parent && eq(getColumn(columns, parent.member), sql.placeholder('parent')),
        ...conditions.map((each) => each.build(sql.placeholder(each.name), eq)),
        buildExpiryCondition(resource),
        buildRuleCondition(resource, rule),
      )
      const keys = sql.raw(figures.flatMap(({ part }, i) => (part === 'group' ? i + 1 : [])).join())
      const grouped = figures[0]?.part === 'group' ? sql`group by ${keys} order by ${keys}` : sql``
      return db.execute(
        sql`select ${sql.join(selected, sql`, `)} from ${table} where ${where ?? sql`true`} ${grouped} limit ${sql.raw(`${MAX_GROUPS + 1}`)}`,
      )
    }
    // A plan for the values takes much less time than to read the rows.
    const statement = statements.get<Row>(JSON.stringify([actor.role, formatRule(rule), names]), build, {
      customPlan: true,
    })
    return statement(connection, {
      ...{ caller: actor.userId, parent: scope.parent },
      ...Object.fromEntries(conditions.map(({ name, value }) => [name, value])),
    })
  }
}

const refuse = (parameter: string, message: string) =>
  apiError('VALIDATION_ERROR', {
    message: 'The aggregates cannot be computed',
    violations: [createViolation(parameter, message, 'OUT_OF_RANGE')],
  })

/** Returns a group as the response has it. @throws ApiError 422 for a sum that is too large */
function toEntry({ figures }: AggregateQuery, row: Row) {
  const entry: Record<string, unknown> & { group: object } = { group: {} }
  for (const [i, { part, field, toJson }] of figures.entries()) {
    const value = row[i] === null ? null : toJson(row[i])
    if (part === 'sum' && Math.abs(Number(value)) > MAX_INTEGER)
      throw refuse('measures', `has a sum of ${field} beyond ${MAX_INTEGER} in a group; avg:${field} works`)
    entry[part] = part === 'count' ? value : { ...Object(entry[part]), [field]: value }
  }
  return entry
}

export function createAggregateHandler({
  app: { database, resourceWriter },
  resource,
}: OperationContext): Handler<{ Querystring: AggregateQuery }> {
  const { mappings } = resourceWriter
  const readGroups = createGroupReader(resource, getFieldNames(resource, mappings))
  const checkRole = createCheckRole(resource, (view) => createAggregateQuery(view, mappings))

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the credential for compared relations (403).
    const { actor, parent } = readAddress(resource, request)
    checkQuery(request, checkRole)
    const { query } = request
    for (const required of query.list.requires) requireCredential(actor, required)

    // 2. The groups of the rows that the caller may list, or no parent (404).
    const relations = listComparedRelations(query.list)
    const replica = database.replicas && getReplica(database.replicas, resource, actor, relations)
    const rows = await readGroups(replica ?? database, query, getListScope(resource, actor, parent))
    if (rows.length === 0 || !query.isGrouped) await ensureParent(database, resource, parent)

    // 3. What JSON and a response can hold (422).
    if (rows.length > MAX_GROUPS) throw refuse('group_by', `makes more than ${MAX_GROUPS} groups`)
    const data = rows.map((row) => toEntry(query, row))
    reply.header('cache-control', 'no-store')
    return { data, meta: { timestamp: new Date().toISOString() } }
  }
}
