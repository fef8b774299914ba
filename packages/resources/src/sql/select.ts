/** Reads rows by their keys, and locks them for writes. */
import { formatRule, getRuleFields, hasPaths } from '@resource-api/api/rules'
import { type Connection, isAnyOf } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/client'
import { hasAnyId, hasId, orderByKey, toId, toIdList } from '@resource-api/database/key'
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { ListQuery } from '../definition/query.ts'
import type { Resource, Select } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn } from './conditions.ts'
import { createPageReader } from './page.ts'
import { createPermittedReader } from './permitted.ts'
import { createRelatedReader } from './related.ts'
import { createRowSizer, getLargePage } from './reply-size.ts'
import { getRevision, nameField } from './row-content.ts'

export function createSelect(resource: Resource): Select {
  const statements = new StatementsByShape()
  const { columns, parent, relations, rowParts, schemas, table } = resource
  const { key, searched, updated } = rowParts
  const [firstPart] = key.parts
  const firstColumn = { id: nameField('id', firstPart.column) }
  /** What the engine reads of each row. */
  const needed = ['id', ...key.parts.map(({ member }) => member), 'revision', ...(updated ? [updated] : [])]
  /** Those that are expressions over several columns. */
  const computed = {
    ...(key.split && { id: nameField('id', toId(key)) }),
    ...(!rowParts.revision && { revision: nameField('revision', getRevision(resource)) }),
  }
  const members = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const allColumns = Object.keys(columns).filter((name) => name !== searched)

  /** The value of a field that is computed, or that only a version has, may depend on all fields. */
  const needsAll = (fields: readonly string[]) =>
    fields.some((name) => name !== 'id' && !Object.hasOwn(columns, name))

  /** Returns the columns to read: the requested fields, and those that the engine needs. */
  const selectColumns = (fields: readonly string[] | undefined, also: readonly string[]) => {
    const selected = fields && !needsAll(fields) ? fields : members
    const names = new Set([...selected, ...needed, ...also])
    const known = [...names].filter((name) => name in columns)
    // A member may have another name than its column.
    const selectedColumns = known.map((name) => [name, nameField(name, getColumn(columns, name))] as const)
    return { ...Object.fromEntries(selectedColumns), ...computed }
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
      .where(and(hasId(key, sql.placeholder('id')), buildExpiryCondition(resource), isAllowed))

  const hasValues = (name: string) =>
    and(isAnyOf(getColumn(columns, name), sql.placeholder('values')), buildExpiryCondition(resource))

  return {
    largePage: getLargePage(schemas.read),
    estimateRowBytes: createRowSizer(schemas.read),

    async one(connection, id, { fields, include = [], rule = true, actor }) {
      const shape = `one|${fields?.join() ?? '*'}|${include.join()}|${actor?.role}`
      const buildOne = (db: Connection) => {
        const local = [...getLocalColumns(include), ...(parent ? [parent.member] : [])]
        const isAllowed = hasPaths(rule) ? buildRuleCondition(resource, rule) : undefined
        const also = [...getRuleFields(rule), ...local]
        return buildById(db, fields, also, isAllowed && { is_allowed: sql`${isAllowed}`.as('is_allowed') })
      }
      const statement = statements.get<Row>(shape, buildOne, { canBatch: true })
      const [row] = await statement(connection, { id: key.split?.(id) ?? id, caller: actor?.userId })
      return row
    },

    async whole(connection, id) {
      const buildWhole = (db: Connection) => buildById(db, undefined, allColumns)
      const statement = statements.get<Row>('whole', buildWhole, { canBatch: true })
      const [row] = await statement(connection, { id: key.split?.(id) ?? id })
      return row
    },

    async locked(connection, id, mode, { rule, actor }) {
      const buildLocked = (db: Connection) =>
        buildById(db, undefined, allColumns, {}, buildRuleCondition(resource, rule)).for(mode)
      const statement = statements.get<Row>(`locked|${mode}|${formatRule(rule)}`, buildLocked)
      const [row] = await statement(connection, { id: key.split?.(id) ?? id, caller: actor.userId })
      return row
    },

    async lockAll(connection, ids, mode, { rule, actor }) {
      const buildLocks = (db: Connection) =>
        db
          .select(firstColumn)
          .from(table)
          .where(
            and(
              hasAnyId(key, sql.placeholder('ids')),
              buildExpiryCondition(resource),
              buildRuleCondition(resource, rule),
            ),
          )
          .orderBy(...orderByKey(key))
          .for(mode)
      const statement = statements.get(`lock all|${mode}|${formatRule(rule)}`, buildLocks)
      await statement(connection, { ids: key.split ? toIdList(key.split, ids) : ids, caller: actor.userId })
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
          .orderBy(...orderByKey(key))
          .for('no key update')
      const statement = statements.get<Row>(`lock|${name}|${formatRule(rule)}`, buildLockByValues)
      return statement(connection, { values, parent: parentId, caller: actor.userId })
    },

    async isReadable(connection, name, value, { rule, actor }) {
      const buildReadable = (db: Connection) => {
        const hasValue = eq(getColumn(columns, name), sql.placeholder('value'))
        const isAllowed = and(hasValue, buildRuleCondition(resource, rule), buildExpiryCondition(resource))
        return db.select(firstColumn).from(table).where(isAllowed)
      }
      const statement = statements.get(`readable|${name}|${actor.role}`, buildReadable)
      const rows = await statement(connection, { value, caller: actor.userId })
      return rows.length > 0
    },

    page: createPageReader(resource, statements, selectPageColumns),

    findPermitted: createPermittedReader(resource, statements),

    related: createRelatedReader(resource, {
      statements,
      fields: selectColumns(undefined, rowParts.created ? [rowParts.created] : []),
    }),
  }
}
