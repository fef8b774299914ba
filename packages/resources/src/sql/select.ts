/** Reads rows by their keys, and locks them for writes. */
import { formatRule, getRuleFields, hasPaths } from '@resource-api/api/rules'
import { type Connection, isAnyOf } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/client'
import { and, asc, eq, getTableName, type SQL, sql } from 'drizzle-orm'
import type { ListQuery } from '../definition/query.ts'
import type { Resource, Select } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn } from './conditions.ts'
import { createPageReader } from './page.ts'
import { createPermittedReader } from './permitted.ts'
import { createRelatedReader } from './related.ts'
import { createRowSizer, getLargePage } from './reply-size.ts'

export function createSelect(resource: Resource): Select {
  const statements = new StatementsByShape()
  const { columns, isView, parent, relations, schemas, table } = resource
  /** The revision of a row of a view, which may change with any of the rows that it is made of. */
  const rowHash =
    sql`hashtextextended(${sql.identifier(getTableName(table))}::text, 0) & ${sql.raw(`${Number.MAX_SAFE_INTEGER}`)}`.as(
      'revision',
    )
  const members = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const allColumns = Object.keys(columns).filter((name) => name !== 'search')

  /** The value of a field that is computed, or that only a version has, may depend on all fields. */
  const needsAll = (fields: readonly string[]) => fields.some((name) => !Object.hasOwn(columns, name))

  /** Returns the columns to read: the requested fields, and those that the engine needs. */
  const selectColumns = (fields: readonly string[] | undefined, also: readonly string[]) => {
    const selected = fields && !needsAll(fields) ? fields : members
    const names = new Set([...selected, 'id', 'revision', 'updated_at', ...also])
    const known = [...names].filter((name) => name in columns)
    const selectedColumns = known.map((name) => {
      const column = getColumn(columns, name)
      // The key of a view may have another name than `id`.
      return [name, column.name === name ? column : sql`${column}`.as(name)]
    })
    return { ...Object.fromEntries(selectedColumns), ...(isView && { revision: rowHash }) }
  }

  const getLocalColumns = (include: readonly string[]) =>
    include.flatMap((name) => relations[name]?.local ?? [])

  const selectPageColumns = ({ fields, include, sorts }: ListQuery) =>
    selectColumns(fields, [...sorts.map(({ name }) => name), ...getLocalColumns(include)])

  const buildById = (
    db: Connection,
    fields: readonly string[] | undefined,
    also: readonly string[],
    expressions: Record<string, SQL.Aliased> = {},
    isAllowed?: SQL,
  ) =>
    db
      .select({ ...selectColumns(fields, also), ...expressions })
      .from(table)
      .where(and(eq(table.id, sql.placeholder('id')), buildExpiryCondition(resource), isAllowed))

  const hasValues = (name: string) =>
    and(isAnyOf(getColumn(columns, name), sql.placeholder('values')), buildExpiryCondition(resource))

  return {
    largePage: getLargePage(schemas.read),
    estimateRowBytes: createRowSizer(schemas.read),

    async one(connection, id, { fields, include = [], rule = true, actor }) {
      const key = `one|${fields?.join() ?? '*'}|${include.join()}|${actor?.role}`
      const buildOne = (db: Connection) => {
        const local = [...getLocalColumns(include), ...(parent ? [parent.member] : [])]
        const isAllowed = hasPaths(rule) ? buildRuleCondition(resource, rule) : undefined
        const also = [...getRuleFields(rule), ...local]
        return buildById(db, fields, also, isAllowed && { is_allowed: sql`${isAllowed}`.as('is_allowed') })
      }
      const statement = statements.get<Row>(key, buildOne, { canBatch: true })
      const [row] = await statement(connection, { id, caller: actor?.userId })
      return row
    },

    async whole(connection, id) {
      const buildWhole = (db: Connection) => buildById(db, undefined, allColumns)
      const [row] = await statements.get<Row>('whole', buildWhole, { canBatch: true })(connection, { id })
      return row
    },

    async locked(connection, id, mode, { rule, actor }) {
      const buildLocked = (db: Connection) =>
        buildById(db, undefined, allColumns, {}, buildRuleCondition(resource, rule)).for(mode)
      const statement = statements.get<Row>(`locked|${mode}|${formatRule(rule)}`, buildLocked)
      const [row] = await statement(connection, { id, caller: actor.userId })
      return row
    },

    async lockAll(connection, ids, mode, { rule, actor }) {
      const buildLocks = (db: Connection) =>
        db
          .select({ id: table.id })
          .from(table)
          .where(
            and(
              isAnyOf(table.id, sql.placeholder('ids')),
              buildExpiryCondition(resource),
              buildRuleCondition(resource, rule),
            ),
          )
          .orderBy(asc(table.id))
          .for(mode)
      const statement = statements.get<{ id: string }>(`lock all|${mode}|${formatRule(rule)}`, buildLocks)
      await statement(connection, { ids, caller: actor.userId })
    },

    byValues(connection, name, values) {
      const buildByValues = (db: Connection) =>
        db
          .select(selectColumns(['id'], [name, ...(parent ? [parent.member] : [])]))
          .from(table)
          .where(hasValues(name))
      return statements.get<Row>(`values|${name}`, buildByValues)(connection, { values })
    },

    lockByValues(connection, name, values, { rule, actor, parent: parentId }) {
      const buildLockByValues = (db: Connection) =>
        db
          .select(selectColumns(undefined, allColumns))
          .from(table)
          .where(
            and(
              hasValues(name),
              parent && eq(getColumn(columns, parent.member), sql.placeholder('parent')),
              buildRuleCondition(resource, rule),
            ),
          )
          .orderBy(asc(table.id))
          .for('no key update')
      const statement = statements.get<Row>(`lock|${name}|${formatRule(rule)}`, buildLockByValues)
      return statement(connection, { values, parent: parentId, caller: actor.userId })
    },

    async isReadable(connection, name, value, { rule, actor }) {
      const buildReadable = (db: Connection) => {
        const hasValue = eq(getColumn(columns, name), sql.placeholder('value'))
        const isAllowed = and(hasValue, buildRuleCondition(resource, rule), buildExpiryCondition(resource))
        return db.select({ id: table.id }).from(table).where(isAllowed)
      }
      const statement = statements.get(`readable|${name}|${actor.role}`, buildReadable)
      const rows = await statement(connection, { value, caller: actor.userId })
      return rows.length > 0
    },

    page: createPageReader(resource, statements, selectPageColumns),

    findPermitted: createPermittedReader(resource, statements),

    related: createRelatedReader(resource, { statements, fields: selectColumns(undefined, []) }),
  }
}
