/** Reads rows, by prepared statements: one for each shape of query. */
import { and, asc, desc, eq, getTableName, type SQL, sql } from 'drizzle-orm'
import { StatementsByShape } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import { isAnyOf } from '../../../drizzle/expressions.ts'
import { formatRule, getRuleFields, hasPaths, type Rule } from '../../access/rules.ts'
import { invalidCursor } from '../cursors.ts'
import type { ListQuery, SortTerm } from '../query.ts'
import { createRowSizer, DEFAULT_LIMIT, getMaxBytes } from '../reply-size.ts'
import type { ChunkScope, ListScope, Resource, Select } from '../resource.ts'
import type { Row } from '../store.ts'
import { type CallerRead, listCallerReads } from './caller-reads.ts'
import {
  buildExpiryCondition,
  buildListConditions,
  buildRuleCondition,
  getColumn,
  unnestValues,
} from './conditions.ts'
import { buildAfterCondition, toPositionValues } from './keyset.ts'
import { chooseIndex, equalsAnyOf } from './leading-column.ts'
import { createPermittedReader } from './permitted.ts'
import { createRelatedReader } from './related.ts'

type CountedRow = Row & { total_count?: number }

/** Rows read for a page of the default length: one more row shows whether another page follows. */
const DEFAULT_SIZE = DEFAULT_LIMIT + 1

/** The form of the statement of a page. */
interface PageForm {
  isDefaultSize: boolean
  hasOffset: boolean
}

const toOrder = ({ expression, descending }: SortTerm) => (descending ? desc(expression) : asc(expression))

/** Returns the key of a rule. Under a parent, a role has several rules. */
const getRuleKey = ({ rule, actor, parent }: ListScope): string =>
  parent === undefined ? actor.role : `${actor.role}, ${formatRule(rule)}`

export function createSelect(resource: Resource): Select {
  const statements = new StatementsByShape()
  const { columns, parent, relations, schemas, table } = resource
  const members = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const allColumns = Object.keys(columns).filter((name) => name !== 'search')

  /** The value of a field that is computed, or that only a version has, may depend on all fields. */
  const needsAll = (fields: readonly string[]) => fields.some((name) => !Object.hasOwn(columns, name))

  /** Returns the columns to read: the requested fields, and those that the engine needs. */
  const selectColumns = (fields: readonly string[] | undefined, also: readonly string[]) => {
    const selected = fields && !needsAll(fields) ? fields : members
    const names = new Set([...selected, 'id', 'revision', 'updated_at', ...also])
    const known = [...names].filter((name) => name in columns)
    return Object.fromEntries(known.map((name) => [name, getColumn(columns, name)]))
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

  const buildPage = (
    db: Connection,
    query: ListQuery,
    scope: ChunkScope,
    { isDefaultSize, hasOffset }: PageForm,
  ): SQL => {
    const { terms } = query
    const reads = listCallerReads(resource, query, scope)
    const { leading, each } = reads ? {} : chooseIndex(resource, query, terms, scope)
    const [first] = terms
    const order = leading && first ? [{ ...first, expression: leading }, ...terms] : terms
    const equals = leading ? equalsAnyOf : eq
    const buildOrdered = (rule: Rule, ...conditions: (SQL | undefined)[]) =>
      db
        .select(selectPageColumns(query))
        .from(table)
        .where(
          and(
            ...buildListConditions(resource, query, { ...scope, rule }, { equals, each }),
            ...conditions,
            scope.position ? buildAfterCondition(terms) : undefined,
          ),
        )
        .orderBy(...order.map(toOrder))
        .getSQL()
    // A literal limit: PostgreSQL plans a statement with a parameter as limit again for each execution.
    const limit = isDefaultSize ? sql.raw(String(DEFAULT_SIZE)) : sql.placeholder('limit')
    const offset = hasOffset ? sql` offset ${sql.placeholder('offset')}` : sql``
    const reach = hasOffset ? sql.placeholder('reach') : limit
    const buildPart = ({ rule, isNew, byKeys }: CallerRead): SQL =>
      byKeys
        ? sql`(select part.* from (${byKeys.keys}) as own
            cross join lateral (${buildOrdered(byKeys.rule, byKeys.hasKey, isNew)} limit ${reach}) as part)`
        : sql`(${buildOrdered(rule)} limit ${reach})`
    const page = reads
      ? mergeParts(sql`(${sql.join(reads.map(buildPart), sql` union all `)})`, terms)
      : each
        ? mergeReads(each, sql`${buildOrdered(scope.rule)} limit ${reach}`, terms)
        : buildOrdered(scope.rule)
    const rows = sql`${page} limit ${limit}${offset}`
    return hasOffset ? addTotal(db, rows, query, scope) : rows
  }

  /**
   * Adds the number of all rows to those of a page, in one statement and so in one snapshot. The left side has one row, so
   * a nested loop is the only join, and it keeps the order. A page without rows has one of nulls.
   */
  const addTotal = (db: Connection, page: SQL, query: ListQuery, scope: ListScope): SQL => {
    const buildCount = (rule: Rule, isNew?: SQL) =>
      db
        .select({ count: sql`count(*)`.as('count') })
        .from(table)
        .where(and(...buildListConditions(resource, query, { ...scope, rule }), isNew))
    const parts = listCallerReads(resource, query, scope)?.map(({ rule, isNew }) => buildCount(rule, isNew))
    const total = parts
      ? sql`(select ${sql.join(
          parts.map((part) => sql`${part}`),
          sql` + `,
        )} as count)`
      : buildCount(scope.rule)
    return sql`select total.count as total_count, page.* from ${total} as total left join (${page}) as page on true`
  }

  /** Merges the rows of several reads. The order refers to the columns by their table's name. */
  const mergeParts = (reads: SQL, terms: readonly SortTerm[]): SQL => {
    const alias = sql.identifier(getTableName(table))
    const order = sql.join(terms.map(toOrder), sql`, `)
    return sql`select ${alias}.* from ${reads} as ${alias} order by ${order}`
  }

  /** Reads the rows of each value of a filter, and merges them. */
  const mergeReads = (name: string, read: SQL, terms: readonly SortTerm[]): SQL => {
    const values = unnestValues(name, getColumn(columns, name))
    return mergeParts(sql`${values} cross join lateral (${read})`, terms)
  }

  const hasValues = (name: string) =>
    and(isAnyOf(getColumn(columns, name), sql.placeholder('values')), buildExpiryCondition(resource))

  return {
    maxRowBytes: getMaxBytes(resource.schemas.read),
    estimateRowBytes: createRowSizer(resource.schemas.read),

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

    async page(connection, query, scope) {
      const { actor, parent: parentId, position, rule, size } = scope
      if (position && position.length < query.terms.length) throw invalidCursor()
      const isDefaultSize = size === DEFAULT_SIZE
      const offset = query.page === undefined ? 0 : (query.page - 1) * query.limit
      const hasOffset = query.page !== undefined && !position
      const key = `page|${getRuleKey(scope)}|${query.shape}|${position !== undefined}|${hasOffset}|${isDefaultSize}|${query.isQuick}`
      // Spreads come last: V8 takes ten times as long to extend an object that begins as one.
      const values = {
        caller: actor.userId,
        parent: parentId,
        limit: size,
        offset,
        reach: offset + size,
        ...query.values,
        ...toPositionValues(position),
      }
      // A search is planned with its words: the index is best for rare words, walking the sort order for frequent ones.
      const options = { canBatch: query.isQuick && rule === true, customPlan: query.customPlan }
      const buildChunk = (db: Connection) =>
        db.execute(buildPage(db, query, scope, { isDefaultSize, hasOffset }))
      const rows = await statements.get<CountedRow>(key, buildChunk, options)(connection, values)
      return hasOffset
        ? { rows: rows.filter(({ id }) => id !== null), total: rows[0]?.total_count }
        : { rows, total: undefined }
    },

    findPermitted: createPermittedReader(resource, statements),

    related: createRelatedReader(resource, { statements, fields: selectColumns(undefined, []) }),
  }
}
