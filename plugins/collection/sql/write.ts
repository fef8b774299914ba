/** Writes rows: inserts, updates that increment the revision, and deletes. */
import { and, eq, getTableColumns, getTableName, or, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import type { Connection, RunOptions } from '../../../drizzle/client/types.ts'
import { nextUpdatedAt } from '../../../drizzle/expressions.ts'
import type { Actor, Rule } from '../../access/index.ts'
import { listCascades, removeDependent } from '../../outbox/cascades.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import { buildRecordedStatement, type ChangeKind, changeRows, type Recorders } from '../../outbox/recorder.ts'
import type { ResourceDefinition, Row, Store } from '../definition.ts'
import { buildSearchText } from './case-folding.ts'
import { buildRuleCondition, getColumn } from './conditions.ts'
import { createConstraintErrors, findConstrainedColumns } from './constraint-errors.ts'
import { createIsSameIn } from './same-value.ts'
import { createStatements, param, type Query, type Values } from './statements.ts'

/** The row to update without reading it, and the caller. */
export interface UnreadTarget {
  id: string
  parent: string | undefined
  rule: Rule
  actor: Actor
  origin: ChangeOrigin
}

/** The row has changed since it was read. `operations/change.ts` catches it and writes again with a lock. */
export class StaleRowError extends Error {
  override readonly name = 'StaleRowError'
}

/** The parameters that select the row; columns to set have parameters of their own names. */
const CURRENT = { id: 'current_id', revision: 'current_revision', parent: 'current_parent' }

/** The parameters of an event, in the order of `buildRecordedStatement`. */
const ORIGIN = ['origin_actor', 'origin_credential', 'origin_credential_id', 'origin_request'] as const

const toOriginValues = ({ actorId, credential, credentialId, requestId }: ChangeOrigin): Values => ({
  origin_actor: actorId,
  origin_credential: credential,
  origin_credential_id: credentialId,
  origin_request: requestId,
})

/** Builds statements; `runStatement` runs them. */
const build = drizzle(async () => {
  throw new Error('Statements are only built here')
})

/** The parts of a resource that its writes depend on. */
export type StoredResource = Pick<ResourceDefinition, 'table' | 'schemas' | 'search'> & {
  parent?: { member: string }
}

/**
 * Creates the functions that write the rows of one resource.
 * @param recorders records the changes; without, no events are written
 */
export function createStores(resource: StoredResource, recorders: Recorders = new Map()) {
  const { table, search, parent } = resource
  const columns: Record<string, PgColumn> = getTableColumns(table)
  const columnNames = Object.keys(columns).sort()
  const returning = Object.fromEntries(Object.entries(columns).filter(([name]) => name !== 'search'))
  const isSameIn = createIsSameIn(columns)
  const constrainedColumns = findConstrainedColumns(table)
  const toApiError = createConstraintErrors(resource, parent?.member)
  const runStatement = createStatements()
  const recorder = recorders.get(getTableName(table))
  const cascades = listCascades(recorders, table)
  const selected = Object.keys(returning)
    .map((name) => `changed."${name}"`)
    .join(', ')

  /**
   * Extends a statement that returns the columns of its row so that it writes the event too.
   * @param previous the former values of an update, as JSON over the row `changed`; by default the parameter `previous`
   */
  const record = (kind: ChangeKind, query: Query, previous?: string): Query =>
    recorder
      ? {
          toSQL() {
            const { sql: text, params: own } = query.toSQL()
            const hasParam = kind === 'updated' && previous === undefined
            const params = hasParam ? [...own, param('previous')] : own
            const change = {
              text,
              previous: hasParam ? `$${params.length}::json` : previous,
              paramCount: params.length,
              select: selected,
            }
            return {
              sql: buildRecordedStatement(recorder, kind, change),
              params: [...params, ...ORIGIN.map(param)],
            }
          },
        }
      : query

  /** Runs a statement of one row. Resolves to the row, or to undefined if there is none. */
  const runForRow = async (
    connection: Connection,
    key: string,
    values: Values,
    buildQuery: () => Query,
    options?: RunOptions,
  ): Promise<Row | undefined> => {
    try {
      const [row] = await runStatement(connection, key, values, buildQuery, options)
      return row
    } catch (error) {
      throw toApiError(error)
    }
  }

  const getSearchColumn = (row: Values) =>
    'search' in columns ? { search: buildSearchText(row, search) } : undefined

  const getNames = (values: Values) => columnNames.filter((name) => values[name] !== undefined)

  /**
   * Returns the options of a statement that sets these columns and waits for no lock on its row. It is batched if it can
   * wait for no other transaction either: the statements behind one that waits would time out with it.
   */
  const getOptions = (names: readonly string[]): RunOptions => ({
    canBatch: !names.some((name) => constrainedColumns.has(name)),
  })

  const toParams = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, param(name)]))

  /** The row with the revision that was read: after a concurrent update, no row matches. */
  const currentRevision = and(eq(table.id, param(CURRENT.id)), eq(table.revision, param(CURRENT.revision)))
  const toCurrentValues = ({ id, revision }: Row) => ({ [CURRENT.id]: id, [CURRENT.revision]: revision })

  const buildSet = (names: readonly string[]) =>
    build.update(table).set({
      ...toParams(names),
      revision: sql`${table.revision} + 1`,
      updated_at: nextUpdatedAt(table),
    })

  /** Returns the former values that an event has, as JSON. */
  const getPrevious = (current: Row, changes: Values): string | undefined =>
    recorder &&
    JSON.stringify(
      Object.fromEntries(
        Object.keys(changes).flatMap((name) => (recorder.columns.has(name) ? [[name, current[name]]] : [])),
      ),
    )

  /** Returns the columns that an event shows, and the name that the former value of each has. */
  const getFormerNames = (names: readonly string[]) =>
    names.flatMap((name) => (recorder?.columns.has(name) ? [{ name, former: `former_${name}` }] : []))

  /** Returns the former values that differ, as JSON over the row `changed`. */
  const buildPrevious = (names: readonly string[]): string => {
    const shown = getFormerNames(names)
    const [first] = shown
    if (first && shown.length === 1) return `json_build_object('${first.name}', changed."${first.former}")`
    const parts = shown.map(
      ({ name, former }) =>
        `case when changed."${name}" is distinct from changed."${former}"
          then jsonb_build_object('${name}', changed."${former}") else '{}'::jsonb end`,
    )
    return first ? `(${parts.join(' || ')})::json` : `'{}'::json`
  }

  /** Returns the columns whose values differ from the row. */
  const getChanges = (current: Row, values: Values): Values =>
    Object.fromEntries(
      Object.entries(values).filter(
        ([name, value]) => name in columns && !isSameIn(name, value, current[name]),
      ),
    )

  const store = (connection: Connection, origin: ChangeOrigin): Store<Row> => ({
    connection,

    async changeRows(changed, kind, change) {
      await changeRows(connection, { recorders, origin }, changed, kind, change)
    },

    async insert(fields) {
      const values: Values = { ...fields, ...getSearchColumn(fields) }
      const row = await runForRow(
        connection,
        `insert|${getNames(values)}`,
        recorder ? { ...values, ...toOriginValues(origin) } : values,
        () =>
          record(
            'created',
            build
              .insert(table)
              .values(toParams(getNames(values)))
              .returning(returning),
          ),
        getOptions(getNames(values)),
      )
      if (!row) throw new Error('An insert returned no row')
      return row
    },

    /** @throws StaleRowError if the row has changed since it was read */
    async update(current, fields) {
      const changes = getChanges(current, fields)
      if (Object.keys(changes).length === 0) return current
      const isSearchChanged = search.some((name) => name in changes)
      const values: Values = {
        ...changes,
        ...(isSearchChanged && getSearchColumn({ ...current, ...changes })),
      }
      const row = await runForRow(
        connection,
        `update|${getNames(values)}`,
        {
          ...values,
          ...toCurrentValues(current),
          ...toOriginValues(origin),
          previous: getPrevious(current, changes),
        },
        () => record('updated', buildSet(getNames(values)).where(currentRevision).returning(returning)),
      )
      if (!row) throw new StaleRowError()
      return row
    },

    async remove(current) {
      await removeDependent(connection, { recorders, origin }, cascades, current.id).catch((error) => {
        throw toApiError(error)
      })
      await runForRow(connection, 'delete', { ...toCurrentValues(current), ...toOriginValues(origin) }, () =>
        record('deleted', build.delete(table).where(currentRevision).returning(returning)),
      )
    },
  })

  /**
   * Updates a row without reading it. Resolves to undefined if the row does not exist under that parent, if the rule
   * does not allow it, if it has these values already, or if another transaction has locked it.
   */
  const updateUnread = (
    connection: Connection,
    { id, parent: parentId, rule, actor, origin }: UnreadTarget,
    values: Values,
  ) => {
    const isDifferent = () =>
      or(...getNames(values).map((name) => sql`${getColumn(columns, name)} is distinct from ${param(name)}`))
    const isTarget = () =>
      and(
        eq(table.id, param(CURRENT.id)),
        parent && eq(getColumn(columns, parent.member), param(CURRENT.parent)),
        buildRuleCondition(columns, rule),
        isDifferent(),
      )
    const buildUnread = () => {
      const names = getNames(values)
      // `old` has the former values, which PostgreSQL itself returns only from version 18 on. A row that is locked is
      // skipped: after the other transaction, the revisions would differ, no row be updated, and the write read the row.
      const read = sql.join(
        ['id', 'revision', ...names].map((name) => sql.identifier(name)),
        sql`, `,
      )
      const former = Object.fromEntries(
        getFormerNames(names).map((each) => [
          each.former,
          sql`old.${sql.identifier(each.name)}`.as(each.former),
        ]),
      )
      const old = sql`(select ${read} from ${table} where ${isTarget()} for no key update skip locked) as old`
      return record(
        'updated',
        buildSet(names)
          .from(old)
          .where(sql`${table.id} = old.id and ${table.revision} = old.revision`)
          .returning({ ...returning, ...former }),
        buildPrevious(names),
      )
    }
    return runForRow(
      connection,
      `unread|${actor.role}|${getNames(values)}`,
      {
        ...values,
        [CURRENT.id]: id,
        [CURRENT.parent]: parentId,
        caller: actor.userId,
        ...(recorder && toOriginValues(origin)),
      },
      buildUnread,
      getOptions(getNames(values)),
    )
  }

  return { store, updateUnread }
}

export type Stores = ReturnType<typeof createStores>
