/** From a plan to SQL: built by Drizzle once for each shape, then run as a prepared statement with the values. */
import { Type } from '@sinclair/typebox'
import { and, asc, desc, eq, getTableColumns, getTableName, gte, lt, type SQL, sql } from 'drizzle-orm'
import { type PgColumn, PgDialect, QueryBuilder } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, formatRule, getRuleFields, type Rule } from '../../access/index.ts'
import type { AnyCard, Relation, Row } from '../definition.ts'
import { createRowSizer, getChunkSize, getMaxBytes } from '../reply-size.ts'
import { invalidCursor } from '../request/cursor.ts'
import type { ListQuery, Sort } from '../request/list-query.ts'
import { DEFAULT_LIMIT } from '../request/parameters.ts'
import { patternsOf } from './case-folding.ts'
import { columnOf, type Equality, ruleCondition } from './conditions.ts'
import { after, positionOf, positionValues, termsOf } from './keyset.ts'
import { isOneOf, leadOf } from './leading-column.ts'
import { createStatements, run, type Values, value } from './statement-cache.ts'

const build = new QueryBuilder()
const dialect = new PgDialect()

/** How a row is locked: for its removal, or for a change, beside which others may still refer to it. */
export type Lock = 'update' | 'no key update'

/**
 * Whether an index leads straight to the page: one sort, or one condition under the usual sort. With more, rows may
 * have to be passed over, and nobody knows how many.
 */
function isQuick(query: ListQuery, { rule, parent }: { rule: Rule; parent: string | undefined }): boolean {
  const { sorts, filters, words, createdAfter, createdBefore, page } = query
  const conditions = Object.keys(filters).length + (parent === undefined ? 0 : 1)
  const isPlain =
    rule === true && words.length === 0 && createdAfter === undefined && createdBefore === undefined
  const [sort] = sorts
  if (!isPlain || page !== undefined || sorts.length !== 1) return false
  return conditions === 0 || (conditions === 1 && sort?.name === 'created_at')
}

/** Whose list it is, and from where on. */
export interface PageScope {
  rule: Rule
  actor: Actor
  parent: string | undefined
  position: readonly string[] | undefined
}

interface Scope extends PageScope {
  /** How many rows to read. */
  size: number
}

/** What is rare is looked up, what is common is met along the order: only the words can tell which. */
const isSearch = ({ words }: ListQuery): boolean => words.length > 0

/** Under a parent a role's rule has several forms. */
const ruleKey = ({ rule, actor, parent }: Omit<Scope, 'position' | 'size'>): string =>
  parent === undefined ? actor.role : `${actor.role}, ${formatRule(rule)}`

const WHOLE_DAY = 'T00:00:00Z'

/** Bytes of a row beside its text and its JSON. */
const ROW_OVERHEAD_BYTES = 300

/**
 * Returns a query for the rows of `t`, related to the parents `p`, in which text and JSON are null in the rows beyond a
 * sum of bytes. `octet_length` reads the length of a long text from its header: what is cut is never decompressed.
 */
function cutBeyondBytes(columns: Record<string, PgColumn>, parents: SQL, maxBytes: unknown): SQL {
  const names = Object.keys(columns)
  const isLong = (name: string) => /^(?:text|jsonb)\b/.test(columns[name]?.getSQLType() ?? '')
  const of = (name: string) => sql`t.${sql.identifier(name)}`
  const lengths = names.filter(isLong).map((name) => sql`coalesce(octet_length(${of(name)}::text), 0)`)
  const bytes = sql.join([sql.raw(String(ROW_OVERHEAD_BYTES)), ...lengths], sql` + `)
  const order = (place: SQL) => sql`${place}, t.created_at desc, t.id desc`
  const measured = sql`select p.key as parent_key, p.place as parent_place, t.*, sum(${bytes}) over (order by ${order(sql`p.place`)}) > ${maxBytes} as is_cut from ${parents}`
  const kept = names.map((name) =>
    isLong(name) ? sql`case when not t.is_cut then ${of(name)} end as ${sql.identifier(name)}` : of(name),
  )
  return sql`select t.parent_key, t.is_cut, ${sql.join(kept, sql`, `)} from (${measured}) as t order by ${order(sql`t.parent_place`)}`
}

/** The statements of one collection. */
export function createSelect(card: AnyCard) {
  const statement = createStatements()
  const maxRowBytes = getMaxBytes(card.schemas.read)
  const chunkSize = getChunkSize(maxRowBytes)
  const columns: Record<string, PgColumn> = getTableColumns(card.table)
  const members = Object.keys(card.schemas.read.properties).filter((name) => name in columns)

  /** The columns to read: the members asked for, and what the kernel itself needs of a row. */
  const selection = (fields: readonly string[] | undefined, also: readonly string[]) =>
    Object.fromEntries(
      [...new Set([...(fields ?? members), 'id', 'revision', 'updated_at', ...also])]
        .filter((name) => name in columns)
        .map((name) => [name, columnOf(columns, name)]),
    )

  const localsOf = (include: readonly string[]) =>
    include.flatMap((name) => card.relations[name]?.local ?? [])

  const filterShape = (query: ListQuery) =>
    [
      Object.keys(query.filters).join(),
      query.createdAfter === undefined ? '' : 'a',
      query.createdBefore === undefined ? '' : 'b',
      query.words.length,
    ].join('|')

  const conditions = (
    query: ListQuery,
    rule: Rule,
    parent: boolean,
    equals: Equality = eq,
  ): (SQL | undefined)[] => [
    parent && card.parent ? eq(columnOf(columns, card.parent.member), value('parent')) : undefined,
    ...Object.keys(query.filters).map((name) => equals(columnOf(columns, name), value(`filter_${name}`))),
    query.createdAfter === undefined ? undefined : gte(card.table.created_at, value('after')),
    query.createdBefore === undefined ? undefined : lt(card.table.created_at, value('before')),
    ...query.words.map((_, i) => sql`${columnOf(columns, 'search')} like ${value(`word${i}`)}`),
    ruleCondition(columns, rule, equals),
  ]

  /** The columns in which all rows of a list are alike. A rule of several conditions leaves it open which they meet. */
  const alike = (query: ListQuery, rule: Rule): PgColumn[] => {
    const members = typeof rule !== 'boolean' && rule.length === 1 ? getRuleFields(rule) : []
    return [...Object.keys(query.filters), ...members].map((name) => columnOf(columns, name))
  }

  const valuesOf = (query: ListQuery, actor: Actor, parent: string | undefined): Values => ({
    caller: actor.userId,
    ...(parent === undefined ? {} : { parent }),
    ...Object.fromEntries(Object.entries(query.filters).map(([name, wanted]) => [`filter_${name}`, wanted])),
    ...(query.createdAfter === undefined ? {} : { after: query.createdAfter + WHOLE_DAY }),
    ...(query.createdBefore === undefined ? {} : { before: query.createdBefore + WHOLE_DAY }),
    ...Object.fromEntries(patternsOf(query.words).map((pattern, i) => [`word${i}`, pattern])),
  })

  /** The statement for a page, and how many values say where it begins. */
  const makePage = (query: ListQuery, scope: Scope) => {
    const { rule, parent, position, size } = scope
    const terms = termsOf(card, query.sorts)
    // With a parameter for its limit, PostgreSQL would plan the most frequent statement of all anew each time.
    const isUsual = size === DEFAULT_LIMIT + 1
    const hasOffset = query.page !== undefined && !position
    const key = [
      'page',
      ruleKey(scope),
      filterShape(query),
      terms.map(({ name, descending }) => `${descending ? '-' : ''}${name}`).join(),
      query.fields?.join() ?? '*',
      query.include.join(),
      position ? 'c' : '',
      hasOffset ? 'p' : '',
      isUsual ? 'u' : '',
    ].join('|')
    const found = statement(key, () => {
      // Under a parent each index begins with that.
      const lead = parent === undefined ? leadOf(card.table, alike(query, rule), terms) : undefined
      const [first] = terms
      const order = lead && first ? [{ ...first, expression: lead }, ...terms] : terms
      const ordered = build
        .select(selection(query.fields, [...query.sorts.map(({ name }) => name), ...localsOf(query.include)]))
        .from(card.table)
        .where(
          and(
            ...conditions(query, rule, parent !== undefined, lead ? isOneOf : eq),
            position ? after(terms) : undefined,
          ),
        )
        .orderBy(
          ...order.map(({ expression, descending }) => (descending ? desc(expression) : asc(expression))),
        )
      const limit = isUsual ? sql.raw(String(DEFAULT_LIMIT + 1)) : value('limit')
      const offset = hasOffset ? sql` offset ${value('offset')}` : sql``
      return { toSQL: () => dialect.sqlToQuery(sql`${ordered.getSQL()} limit ${limit}${offset}`) }
    })
    return { found, places: terms.length }
  }

  /** Queries are read once for each text: what is asked the same way again need not be put together again. */
  const pages = new WeakMap<ListQuery, Map<string, ReturnType<typeof makePage>>>()

  const pageOf = (query: ListQuery, scope: Scope) => {
    const known = pages.get(query) ?? new Map<string, ReturnType<typeof makePage>>()
    if (known.size === 0) pages.set(query, known)
    const style = scope.position ? '|c' : ''
    const key = `${ruleKey(scope)}${style}${scope.size === DEFAULT_LIMIT + 1 ? '' : '|l'}`
    const found = known.get(key) ?? makePage(query, scope)
    known.set(key, found)
    return found
  }

  return {
    columns,

    /** The most bytes that a row takes in a reply. */
    maxRowBytes,
    /** Returns about how many bytes a row takes in a reply. */
    estimateRowBytes: createRowSizer(card.schemas.read),

    /** Returns how many rows one statement may read. */
    chunkSizeOf: (fields: readonly string[] | undefined): number =>
      fields === undefined ? chunkSize : getChunkSize(getMaxBytes(Type.Pick(card.schemas.read, [...fields]))),

    /** One row by its id, with the columns that access and includes look at. */
    one(
      connection: Connection,
      id: string,
      options: { fields?: readonly string[] | undefined; also?: readonly string[]; lock?: Lock | undefined },
    ) {
      const { fields, also = [], lock } = options
      const key = `one|${fields?.join() ?? '*'}|${also.join()}|${lock}`
      const found = statement(key, () => {
        const query = build
          .select(selection(fields, also))
          .from(card.table)
          .where(eq(card.table.id, value('id')))
        return lock ? query.for(lock) : query
      })
      return run(connection, found, { id }, { quick: true }).then((rows) => rows[0])
    },

    /** The columns that a rule and includes need of a row beside the members asked for. */
    needs: (rule: Rule, include: readonly string[]) => [
      ...getRuleFields(rule),
      ...localsOf(include),
      ...(card.parent ? [card.parent.member] : []),
    ],

    /**
     * Reads `size` rows of a list after a position. In the offset style, rows after a position are read without an offset.
     * @throws ApiError 400 INVALID_CURSOR for a position that another release wrote, and that says too little here
     */
    async page(connection: Connection, query: ListQuery, scope: Scope): Promise<Row[]> {
      const { actor, parent, position, size } = scope
      const { found, places } = pageOf(query, scope)
      if (position && position.length < places) throw invalidCursor()
      const values = {
        ...valuesOf(query, actor, parent),
        ...positionValues(position),
        limit: size,
        offset: query.page === undefined ? 0 : (query.page - 1) * query.limit,
      }
      return run(connection, found, values, { quick: isQuick(query, scope), custom: isSearch(query) })
    },

    async count(
      connection: Connection,
      query: ListQuery,
      scope: { rule: Rule; actor: Actor; parent: string | undefined },
    ): Promise<number> {
      const { rule, actor, parent } = scope
      const found = statement(`count|${ruleKey(scope)}|${filterShape(query)}`, () =>
        build
          .select({ count: sql`count(*)`.as('count') })
          .from(card.table)
          .where(and(...conditions(query, rule, parent !== undefined))),
      )
      const [row] = await run(connection, found, valuesOf(query, actor, parent), { custom: isSearch(query) })
      return Number(row?.count ?? 0)
    },

    /** Where a row stands in a sort, for a cursor. */
    position: (row: Row, sorts: readonly Sort[]): string[] => positionOf(row, termsOf(card, sorts)),

    /**
     * Reads the related rows of many parents in one statement, newest first, each with its parent's key as `parent_key`;
     * of a to-many relation one more than is shown of each. Rows of a to-many relation beyond `maxBytes` have
     * `is_cut: true` and null in place of their text and JSON.
     */
    async related(
      connection: Connection,
      relation: Relation,
      keys: readonly string[],
      scope: { rule: Rule; actor: Actor; limit: number; maxBytes: number },
    ): Promise<Row[]> {
      if (keys.length === 0) return []
      const { rule, actor, limit, maxBytes } = scope
      const own = selection(undefined, [])
      const { through } = relation
      const key = `related|${relation.foreign}|${through ? getTableName(through.table) : ''}|${actor.role}|${relation.all ?? false}`
      const found = statement(key, () => {
        const where = and(
          through ? eq(through.foreign, sql`p.key`) : eq(columnOf(columns, relation.foreign), sql`p.key`),
          ruleCondition(columns, rule),
        )
        const from = build.select(own).from(card.table)
        const joined = through ? from.innerJoin(through.table, eq(through.other, card.table.id)) : from
        const ordered = joined.where(where).orderBy(desc(card.table.created_at), desc(card.table.id))
        const related = relation.all ? ordered : ordered.limit(value('limit'))
        const parents = sql`unnest(${value('keys')}::uuid[]) with ordinality as p(key, place) cross join lateral ${related} as t`
        const list = relation.many
          ? cutBeyondBytes(own, parents, value('maxBytes'))
          : sql`select p.key as parent_key, t.* from ${parents}`
        return { toSQL: () => dialect.sqlToQuery(list) }
      })
      const values = { keys: `{${keys.join()}}`, caller: actor.userId, limit, maxBytes }
      return run(connection, found, values, { quick: !relation.many })
    },
  }
}

export type Select = ReturnType<typeof createSelect>
