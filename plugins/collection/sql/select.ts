/** Reads rows, by prepared statements: one for each shape of query. */
import { and, asc, desc, eq, getTableName, type SQL, sql } from 'drizzle-orm'
import { StatementsByShape } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import { formatRule, getRuleFields, type Rule } from '../../access/index.ts'
import { invalidCursor } from '../cursors.ts'
import type { Row } from '../definition.ts'
import { createRowSizer, DEFAULT_LIMIT, getMaxBytes } from '../reply-size.ts'
import type { ResolvedResource } from '../resolve.ts'
import { buildExpiryCondition, buildRuleCondition, getColumn } from './conditions.ts'
import { buildAfterCondition, type SortTerm, toPositionValues } from './keyset.ts'
import { chooseIndex, equalsAnyOf } from './leading-column.ts'
import { buildListConditions, type ListScope, unnestValues } from './list-conditions.ts'
import type { ListPlan } from './list-plan.ts'
import { createRelatedReader } from './related.ts'

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

/** Consecutive rows of a list. */
interface Chunk {
  rows: Row[]
  /** The number of all rows of the list. */
  total: number | undefined
}

/** A row with the number of all rows of its list. */
type CountedRow = Row & { total_count?: number }

/** Rows read for a page of the default length: one more row shows whether another page follows. */
const DEFAULT_SIZE = DEFAULT_LIMIT + 1

/** What a response needs of a row: the requested fields, the keys of relations, and the columns of the access rule. */
interface RowSelection {
  fields?: readonly string[] | undefined
  include?: readonly string[]
  rule?: Rule
  /** Determines the rule. */
  role?: string
}

const toOrder = ({ expression, descending }: SortTerm) => (descending ? desc(expression) : asc(expression))

/** Returns the key of a rule. Under a parent, a role has several rules. */
const getRuleKey = ({ rule, actor, parent }: ListScope): string =>
  parent === undefined ? actor.role : `${actor.role}, ${formatRule(rule)}`

/** Creates the functions that read the rows of one resource. */
export function createSelect(resource: ResolvedResource) {
  const statements = new StatementsByShape()
  const { columns, parent, relations, schemas, table } = resource
  const members = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const allColumns = Object.keys(columns).filter((name) => name !== 'search')

  /** The value of a field that only a version has may depend on all fields. */
  const needsAll = (fields: readonly string[]) =>
    fields.some((name) => !Object.hasOwn(schemas.read.properties, name))

  /** Returns the columns to read: the requested fields, and those that the engine needs. */
  const selectColumns = (fields: readonly string[] | undefined, also: readonly string[]) =>
    Object.fromEntries(
      [
        ...new Set([
          ...(fields && !needsAll(fields) ? fields : members),
          'id',
          'revision',
          'updated_at',
          ...also,
        ]),
      ]
        .filter((name) => name in columns)
        .map((name) => [name, getColumn(columns, name)]),
    )

  const getLocalColumns = (include: readonly string[]) =>
    include.flatMap((name) => relations[name]?.local ?? [])

  const buildById = (db: Connection, fields: readonly string[] | undefined, also: readonly string[]) =>
    db
      .select(selectColumns(fields, also))
      .from(table)
      .where(and(eq(table.id, sql.placeholder('id')), buildExpiryCondition(resource)))

  const buildPage = (
    db: Connection,
    query: ListPlan,
    scope: ChunkScope,
    { isDefaultSize, hasOffset }: { isDefaultSize: boolean; hasOffset: boolean },
  ): SQL => {
    const { terms } = query
    const { leading, each } = chooseIndex(resource, query, terms, scope)
    const [first] = terms
    const order = leading && first ? [{ ...first, expression: leading }, ...terms] : terms
    const needed = [...query.sorts.map(({ name }) => name), ...getLocalColumns(query.include)]
    const equals = leading ? equalsAnyOf : eq
    const ordered = db
      .select(selectColumns(query.fields, needed))
      .from(table)
      .where(
        and(
          ...buildListConditions(resource, query, scope, { equals, each }),
          scope.position ? buildAfterCondition(terms) : undefined,
        ),
      )
      .orderBy(...order.map(toOrder))
      .getSQL()
    // A literal limit: PostgreSQL plans a statement with a parameter as limit again for each execution.
    const limit = isDefaultSize ? sql.raw(String(DEFAULT_SIZE)) : sql.placeholder('limit')
    const offset = hasOffset ? sql` offset ${sql.placeholder('offset')}` : sql``
    const page = each
      ? mergeReads(each, sql`${ordered} limit ${hasOffset ? sql.placeholder('reach') : limit}`, terms)
      : ordered
    const rows = sql`${page} limit ${limit}${offset}`
    return hasOffset ? addTotal(db, rows, query, scope) : rows
  }

  /**
   * Adds the number of all rows to those of a page, in one statement and so in one snapshot. The left side has one row, so
   * a nested loop is the only join, and it keeps the order. A page without rows has one of nulls.
   */
  const addTotal = (db: Connection, page: SQL, query: ListPlan, scope: ListScope): SQL => {
    const total = db
      .select({ count: sql`count(*)`.as('count') })
      .from(table)
      .where(and(...buildListConditions(resource, query, scope)))
    return sql`select total.count as total_count, page.* from ${total} as total left join (${page}) as page on true`
  }

  /** Reads the rows of each value of a filter, and merges them. The order refers to the columns by their table's name. */
  const mergeReads = (name: string, read: SQL, terms: readonly SortTerm[]): SQL => {
    const alias = sql.identifier(getTableName(table))
    const values = unnestValues(name, getColumn(columns, name))
    const order = sql.join(terms.map(toOrder), sql`, `)
    return sql`select ${alias}.* from ${values} cross join lateral (${read}) as ${alias} order by ${order}`
  }

  return {
    /** The most bytes that a row takes in a response. */
    maxRowBytes: getMaxBytes(resource.schemas.read),
    /** Returns about how many bytes a row takes in a response. */
    estimateRowBytes: createRowSizer(resource.schemas.read),

    /** Reads what a response needs of one row. */
    async one(
      connection: Connection,
      id: string,
      { fields, include = [], rule = true, role }: RowSelection,
    ): Promise<Row | undefined> {
      const statement = statements.get<Row>(
        `one|${fields?.join() ?? '*'}|${include.join()}|${role}`,
        (db) =>
          buildById(db, fields, [
            ...getRuleFields(rule),
            ...getLocalColumns(include),
            ...(parent ? [parent.member] : []),
          ]),
        { canBatch: true },
      )
      const [row] = await statement(connection, { id })
      return row
    },

    /** Reads all columns of one row, for a write. */
    async whole(connection: Connection, id: string, lock: Lock | undefined): Promise<Row | undefined> {
      const buildWhole = (db: Connection) => {
        const query = buildById(db, undefined, allColumns)
        return lock ? query.for(lock) : query
      }
      const [row] = await statements.get<Row>(`whole|${lock}`, buildWhole, { canBatch: true })(connection, {
        id,
      })
      return row
    },

    /** Returns whether a rule admits the row with a value, and locks that row against changes. */
    async isReadable(
      connection: Connection,
      name: string,
      value: unknown,
      { rule, actor }: Pick<ListScope, 'rule' | 'actor'>,
    ): Promise<boolean> {
      const buildReadable = (db: Connection) =>
        db
          .select({ id: table.id })
          .from(table)
          .where(
            and(
              eq(getColumn(columns, name), sql.placeholder('value')),
              buildRuleCondition(columns, rule),
              buildExpiryCondition(resource),
            ),
          )
          .for('share')
      const statement = statements.get(`readable|${name}|${actor.role}`, buildReadable)
      const rows = await statement(connection, { value, caller: actor.userId })
      return rows.length > 0
    },

    /**
     * Reads `size` rows of a list. With a position, rows after it are read and no offset applies; otherwise, a query with
     * a page number has a total too.
     * @throws ApiError 400 INVALID_CURSOR for a position with too few values, which another release wrote
     */
    async page(connection: Connection, query: ListPlan, scope: ChunkScope): Promise<Chunk> {
      const { actor, parent: parentId, position, rule, size } = scope
      if (position && position.length < query.terms.length) throw invalidCursor()
      const isDefaultSize = size === DEFAULT_SIZE
      const offset = query.page === undefined ? 0 : (query.page - 1) * query.limit
      const hasOffset = query.page !== undefined && !position
      const key = `page|${getRuleKey(scope)}|${query.shape}|${position !== undefined}|${hasOffset}|${isDefaultSize}|${query.isQuick}`
      const values = {
        ...query.values,
        ...toPositionValues(position),
        caller: actor.userId,
        parent: parentId,
        limit: size,
        offset,
        reach: offset + size,
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

    related: createRelatedReader(resource, { statements, fields: selectColumns(undefined, []) }),
  }
}

export type Select = ReturnType<typeof createSelect>
