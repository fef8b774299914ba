/** Reads rows. Drizzle builds the SQL once for each shape of query; it runs as a prepared statement. */
import { Type } from '@sinclair/typebox'
import { and, asc, desc, eq, sql } from 'drizzle-orm'
import { PgDialect, QueryBuilder } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/types.ts'
import { formatRule, getRuleFields, type Rule } from '../../access/index.ts'
import type { Row } from '../definition.ts'
import { createRowSizer, getChunkSize, getMaxBytes } from '../reply-size.ts'
import { invalidCursor } from '../request/cursor.ts'
import type { ListQuery, Sort } from '../request/list-query.ts'
import { DEFAULT_LIMIT } from '../request/parameters.ts'
import type { ResolvedResource } from '../resolve.ts'
import { getColumn } from './conditions.ts'
import {
  buildAfterCondition,
  createSortTerms,
  readPosition,
  type SortTerm,
  toPositionValues,
} from './keyset.ts'
import { equalsAnyOf, findLeadingColumn } from './leading-column.ts'
import {
  buildListConditions,
  getConditionValues,
  getFilterShape,
  getFixedColumns,
  isQuick,
  type ListScope,
} from './list-conditions.ts'
import { createRelatedReader } from './related.ts'
import { createStatementCache, param, runStatement } from './statement-cache.ts'

const build = new QueryBuilder()
const dialect = new PgDialect()

/** The lock on a row: `update` for its removal; `no key update` for a change, which permits new references to it. */
export type Lock = 'update' | 'no key update'

/** The rows of a list, and the position after which a page begins. */
export interface PageScope extends ListScope {
  position: readonly string[] | undefined
}

interface ChunkScope extends PageScope {
  /** How many rows to read. */
  size: number
}

/** Rows read for a page of the default length: one more row shows whether another page follows. */
const DEFAULT_SIZE = DEFAULT_LIMIT + 1

/** A search is planned with its words: rare words are best found by the index, frequent ones by walking the sort order. */
const isSearch = ({ words }: ListQuery): boolean => words.length > 0

/** Returns the key of a rule. Under a parent, a role has several rules. */
const getRuleKey = ({ rule, actor, parent }: ListScope): string =>
  parent === undefined ? actor.role : `${actor.role}, ${formatRule(rule)}`

/** Creates the functions that read the rows of one resource. */
export function createSelect(resource: ResolvedResource) {
  const statement = createStatementCache()
  const maxRowBytes = getMaxBytes(resource.schemas.read)
  const chunkSize = getChunkSize(maxRowBytes)
  const { columns } = resource
  const getSortTerms = createSortTerms(resource)
  const members = Object.keys(resource.schemas.read.properties).filter((name) => name in columns)

  /** Returns the columns to read: the requested fields, and those that the engine needs. */
  const selectColumns = (fields: readonly string[] | undefined, also: readonly string[]) =>
    Object.fromEntries(
      [...new Set([...(fields ?? members), 'id', 'revision', 'updated_at', ...also])]
        .filter((name) => name in columns)
        .map((name) => [name, getColumn(columns, name)]),
    )

  const getLocalColumns = (include: readonly string[]) =>
    include.flatMap((name) => resource.relations[name]?.local ?? [])

  /** Returns the statement for a page. */
  const getPageStatement = (query: ListQuery, scope: ChunkScope, terms: readonly SortTerm[]) => {
    const { rule, parent, position, size } = scope
    // A literal limit: PostgreSQL plans a statement with a parameter as limit again for each execution.
    const isDefaultSize = size === DEFAULT_SIZE
    const hasOffset = query.page !== undefined && !position
    const key = [
      'page',
      getRuleKey(scope),
      getFilterShape(query),
      query.sorts.map(({ name, descending }) => `${descending ? '-' : ''}${name}`).join(),
      query.fields?.join() ?? '*',
      query.include.join(),
      position ? 'after' : '',
      hasOffset ? 'offset' : '',
      isDefaultSize ? 'default-size' : '',
    ].join('|')
    return statement(key, () => {
      // Under a parent, each index begins with the parent's column.
      const leadingColumn =
        parent === undefined
          ? findLeadingColumn(resource, getFixedColumns(resource, query, rule), terms)
          : undefined
      const [first] = terms
      const order = leadingColumn && first ? [{ ...first, expression: leadingColumn }, ...terms] : terms
      const ordered = build
        .select(
          selectColumns(query.fields, [
            ...query.sorts.map(({ name }) => name),
            ...getLocalColumns(query.include),
          ]),
        )
        .from(resource.table)
        .where(
          and(
            ...buildListConditions(resource, query, scope, leadingColumn ? equalsAnyOf : eq),
            position ? buildAfterCondition(terms) : undefined,
          ),
        )
        .orderBy(
          ...order.map(({ expression, descending }) => (descending ? desc(expression) : asc(expression))),
        )
      const limit = isDefaultSize ? sql.raw(String(DEFAULT_SIZE)) : param('limit')
      const offset = hasOffset ? sql` offset ${param('offset')}` : sql``
      return { toSQL: () => dialect.sqlToQuery(sql`${ordered.getSQL()} limit ${limit}${offset}`) }
    })
  }

  return {
    columns,

    /** The most bytes that a row takes in a response. */
    maxRowBytes,
    /** Returns about how many bytes a row takes in a response. */
    estimateRowBytes: createRowSizer(resource.schemas.read),

    /** Returns how many rows one statement may read. */
    getChunkSize: (fields: readonly string[] | undefined): number =>
      fields === undefined
        ? chunkSize
        : getChunkSize(getMaxBytes(Type.Pick(resource.schemas.read, [...fields]))),

    /** Reads one row by its id. `also` names columns beyond the fields. */
    async one(
      connection: Connection,
      id: string,
      options: { fields?: readonly string[] | undefined; also?: readonly string[]; lock?: Lock | undefined },
    ) {
      const { fields, also = [], lock } = options
      const key = `one|${fields?.join() ?? '*'}|${also.join()}|${lock}`
      const found = statement(key, () => {
        const query = build
          .select(selectColumns(fields, also))
          .from(resource.table)
          .where(eq(resource.table.id, param('id')))
        return lock ? query.for(lock) : query
      })
      const [row] = await runStatement(connection, found, { id }, { canBatch: true })
      return row
    },

    /** Returns the columns that a rule and includes need in addition to the requested fields. */
    getNeededColumns: (rule: Rule, include: readonly string[]) => [
      ...getRuleFields(rule),
      ...getLocalColumns(include),
      ...(resource.parent ? [resource.parent.member] : []),
    ],

    /**
     * Reads `size` rows of a list. With a position, rows after it are read and no offset applies.
     * @throws ApiError 400 INVALID_CURSOR for a position with too few values, which another release wrote
     */
    async page(connection: Connection, query: ListQuery, scope: ChunkScope): Promise<Row[]> {
      const { position, size } = scope
      const terms = getSortTerms(query.sorts)
      if (position && position.length < terms.length) throw invalidCursor()
      const found = getPageStatement(query, scope, terms)
      const values = {
        ...getConditionValues(query, scope),
        ...toPositionValues(position),
        limit: size,
        offset: query.page === undefined ? 0 : (query.page - 1) * query.limit,
      }
      return runStatement(connection, found, values, {
        canBatch: isQuick(query, scope),
        customPlan: isSearch(query),
      })
    },

    /** Counts all rows of a list. */
    async count(connection: Connection, query: ListQuery, scope: ListScope): Promise<number> {
      const found = statement(`count|${getRuleKey(scope)}|${getFilterShape(query)}`, () =>
        build
          .select({ count: sql`count(*)`.as('count') })
          .from(resource.table)
          .where(and(...buildListConditions(resource, query, scope))),
      )
      const [row] = await runStatement<{ count: number }>(
        connection,
        found,
        getConditionValues(query, scope),
        {
          customPlan: isSearch(query),
        },
      )
      return row?.count ?? 0
    },

    /** Returns the position of a row in a sort, for a cursor. */
    getPosition: (row: Row, sorts: readonly Sort[]): string[] => readPosition(row, getSortTerms(sorts)),

    related: createRelatedReader(resource, { statement, fields: selectColumns(undefined, []) }),
  }
}

export type Select = ReturnType<typeof createSelect>
