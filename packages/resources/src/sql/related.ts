/** Reads the related rows of many parents in one statement. */
import type { Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { StatementsByShape } from '@resource-api/database/client'
import { orderByKey } from '@resource-api/database/key'
import { getColumnType } from '@resource-api/database/tables'
import { and, desc, eq, getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { RelatedRow, Resource, Select } from '../definition/resource.ts'
import type { RelationDefinition } from '../definition/resource-table.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn } from './conditions.ts'

const ROW_OVERHEAD_BYTES = 300

/**
 * Returns a query for the related rows `t` of the parents `p`, in which text and JSON are null in the rows beyond a sum
 * of bytes. `octet_length` reads the length of a long text from its header: text that is cut is never decompressed.
 */
function cutBeyondBytes(
  columns: RelatedOptions['fields'],
  { columns: own, rowParts: { created, key } }: Resource,
  parents: SQL,
  maxBytes: unknown,
): SQL {
  const names = Object.keys(columns)
  const isLong = (name: string) => {
    const column = own[name]
    return column && /^(?:text|jsonb)\b/.test(column.getSQLType())
  }
  const toColumn = (name: string) => sql`t.${sql.identifier(name)}`
  const lengths = names.filter(isLong).map((name) => sql`coalesce(octet_length(${toColumn(name)}::text), 0)`)
  const bytes = sql.join([sql.raw(String(ROW_OVERHEAD_BYTES)), ...lengths], sql` + `)
  const latest = [...(created ? [created] : []), ...key.parts.map(({ member }) => member)]
  const descending = sql.join(
    latest.map((name) => sql`${toColumn(name)} desc`),
    sql`, `,
  )
  const orderBy = (place: SQL) => sql`${place}, ${descending}`
  const measured = sql`select p.key as parent_key, p.place as parent_place, t.*, sum(${bytes}) over (order by ${orderBy(sql`p.place`)}) > ${maxBytes} as is_cut from ${parents}`
  const selected = names.map((name) =>
    isLong(name)
      ? sql`case when not t.is_cut then ${toColumn(name)} end as ${sql.identifier(name)}`
      : toColumn(name),
  )
  return sql`select t.parent_key, t.is_cut, ${sql.join(selected, sql`, `)} from (${measured}) as t order by ${orderBy(sql`t.parent_place`)}`
}

interface RelatedOptions {
  statements: StatementsByShape
  fields: Record<string, PgColumn | SQL.Aliased>
}

export function createRelatedReader(
  resource: Resource,
  { statements, fields }: RelatedOptions,
): Select['related'] {
  const { columns, rowParts, table } = resource
  const buildQuery = (
    db: Connection,
    { foreign, through, many, all }: Omit<RelationDefinition, 'to'>,
    rule: Rule,
  ): SQL => {
    const key = getColumn(columns, foreign)
    const created = rowParts.created && getColumn(columns, rowParts.created)
    const isRelated = eq(through?.local ?? key, sql`p.key`)
    const from = db.select(fields).from(table)
    const joined = through ? from.innerJoin(through.table, eq(through.foreign, key)) : from
    const ordered = joined
      .where(and(isRelated, buildRuleCondition(resource, rule), buildExpiryCondition(resource)))
      .orderBy(...(created ? [desc(created)] : []), ...orderByKey(rowParts.key, true))
    const related = all ? ordered : ordered.limit(sql.placeholder('limit'))
    const parents = sql`unnest(${sql.placeholder('keys')}::${sql.raw(getColumnType(through?.local ?? key))}[]) with ordinality as p(key, place) cross join lateral ${related} as t`
    return many
      ? cutBeyondBytes(fields, resource, parents, sql.placeholder('maxBytes'))
      : sql`select p.key as parent_key, t.* from ${parents}`
  }

  return async (connection, relation, keys, { rule, actor, limit, maxBytes }) => {
    if (keys.length === 0) return []
    const { foreign, through, many, all = false } = relation
    const join = through ? `${getTableName(through.table)}.${through.local.name}.${through.foreign.name}` : ''
    const key = `related|${foreign}|${join}|${actor.role}|${many}|${all}`
    const statement = statements.get<RelatedRow>(key, (db) => db.execute(buildQuery(db, relation, rule)))
    return statement(connection, { keys, caller: actor.userId, limit, maxBytes })
  }
}
