/** Computes aggregates: the values of a query string become one statement over the rows of the list. */
import type { Connection } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/internal'
import { formatRule } from '@resource-api/http/internal'
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { ListScope, Resource } from '../resource.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn, listConditions } from '../sql/conditions.ts'
import type { AggregateQuery, Group, Measure } from './query.ts'

export const MAX_GROUPS = 1_000

/** Types whose order is the same in every database, or whose values have no letters. */
const ORDERED_TYPE = /^(?:bigint|boolean|double|integer|numeric|real|smallint|time|uuid)|collate "C"/i

/** Builds the value of a group. Text is sorted by code point. */
function buildKey(column: PgColumn, { unit }: Group): SQL {
  const type = column.getSQLType()
  if (unit === undefined) return ORDERED_TYPE.test(type) ? sql`${column}` : sql`${column}::text collate "C"`
  const time = type.endsWith('with time zone') ? sql`${column} at time zone 'UTC'` : sql`${column}::timestamp`
  return sql`to_char(date_trunc(${sql.raw(`'${unit}'`)}, ${time}), 'YYYY-MM-DD') collate "C"`
}

function buildMeasure(columns: Resource['columns'], measure: Measure): SQL {
  if (measure.function === 'count') return sql`count(*)`
  const column = getColumn(columns, measure.field)
  // The sum of floating-point numbers would depend on their order, and could overflow.
  const number = /^(?:double|real)/.test(column.getSQLType()) ? sql`${column}::numeric` : column
  switch (measure.function) {
    case 'sum':
      return sql`coalesce(sum(${number}), 0)`
    case 'avg':
      return sql`round(avg(${number}), 6)`
    default:
      return sql`${sql.raw(measure.function)}(${column})`
  }
}

/** A group: the values of the query's groups as `g0`, `g1`, and of its measures as `m0`, `m1`, ... */
export type AggregateRow = Readonly<Record<string, unknown>>

/** Creates the function that reads the groups in their order: at most one more than MAX_GROUPS. */
export function createAggregateReader(resource: Resource) {
  const statements = new StatementsByShape()
  const { columns, parent, table } = resource

  return (
    connection: Connection,
    { measures, groups, list }: AggregateQuery,
    { actor, parent: parentId, rule }: ListScope,
  ): Promise<AggregateRow[]> => {
    const conditions = listConditions(resource, list, actor)
    const names = conditions.map(({ name }) => name)
    const shape = JSON.stringify([
      actor.role,
      formatRule(rule),
      parentId === undefined,
      names,
      measures,
      groups,
    ])
    // Its plan depends on the values, and takes much less time than to read the rows.
    const statement = statements.get<AggregateRow>(
      shape,
      (db) => {
        const keys = groups.map(
          (group, i) =>
            sql`${buildKey(getColumn(columns, group.field), group)} as ${sql.identifier(`g${i}`)}`,
        )
        const values = measures.map(
          (measure, i) => sql`${buildMeasure(columns, measure)} as ${sql.identifier(`m${i}`)}`,
        )
        const where = and(
          parent && eq(getColumn(columns, parent.member), sql.placeholder('parent')),
          ...conditions.map(({ name, build }) => build(sql.placeholder(name), eq)),
          buildExpiryCondition(resource),
          buildRuleCondition(resource, rule),
        )
        const places = sql.raw(groups.map((_, i) => i + 1).join())
        const grouped = groups.length > 0 ? sql` group by ${places} order by ${places}` : sql``
        return db.execute(
          sql`select ${sql.join([...keys, ...values], sql`, `)} from ${table} where ${where ?? sql`true`}${grouped} limit ${sql.raw(`${MAX_GROUPS + 1}`)}`,
        )
      },
      { customPlan: true },
    )
    return statement(connection, {
      caller: actor.userId,
      parent: parentId,
      ...Object.fromEntries(conditions.map(({ name, value }) => [name, value])),
    })
  }
}
