/** Updates rows, and increments their revisions. */
import { and, eq, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/types.ts'
import { getColumnType, nextUpdatedAt } from '../../../drizzle/expressions.ts'
import { mapInTurns, SHORT_TURN_MS } from '../../../lib/map-in-turns.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import type { RowUpdate, Stores, UnreadTarget } from '../resource.ts'
import type { Row } from '../store.ts'
import { getColumn } from './conditions.ts'
import { toJsonRow, writeJsonRows } from './json-rows.ts'
import { createIsSameIn } from './same-values.ts'
import { type StatementRunner, toPlaceholders, type WrittenResource } from './statement-runner.ts'
import { getKeyColumns } from './table-facts.ts'

/** What an update sets, and the former values that its event has. */
interface Difference {
  values: Record<string, unknown>
  names: string[]
  previous: Record<string, unknown>
}

interface Update {
  current: Row
  difference: Difference
}

const createStaleError = () => new Error('A row has changed since it was locked')

const toFormer = (name: string) => `former_${name}`

function buildPrevious(names: readonly string[]): SQL {
  const parts = names.map((name) => ({
    key: sql.raw(`'${name}'`),
    value: sql.identifier(name),
    former: sql.identifier(toFormer(name)),
  }))
  const [first] = parts
  if (!first) return sql`'{}'::json`
  if (parts.length === 1) return sql`json_build_object(${first.key}, ${first.former})`
  const objects = parts.map(
    ({ key, value, former }) =>
      sql`case when ${value} is distinct from ${former} then jsonb_build_object(${key}, ${former}) else '{}'::jsonb end`,
  )
  return sql`(${sql.join(objects, sql` || `)})::json`
}

export function createUpdates(
  runner: StatementRunner,
  { parent, search }: Pick<WrittenResource, 'parent' | 'search'>,
): Pick<Stores, 'changeRows' | 'updateUnread'> {
  const { table, columns, columnNames, allColumns, constrainedColumns, recordedColumns } = runner
  const { getSearchColumn, isCurrent, lockTable, readNames, runAll, toCurrentValues } = runner
  const keyColumns = getKeyColumns(table)
  const isSameIn = createIsSameIn(columns)

  const getShownNames = (names: readonly string[]) =>
    names.filter((name) => Object.hasOwn(recordedColumns, name))

  const toNextVersion = () => ({
    revision: sql`${table.revision} + 1`,
    updated_at: nextUpdatedAt(table),
  })

  const buildUpdate = (db: Connection, names: readonly string[]) =>
    db.update(table).set({ ...toPlaceholders(names), ...toNextVersion() })

  /** Returns the values that an update sets, and the former ones that its event has; undefined if no value differs. */
  const findDifference = ({ current, next }: RowUpdate): Difference | undefined => {
    const values: Record<string, unknown> = {}
    let isChanged = false
    for (const name of columnNames) {
      if (!(name in next) || isSameIn(name, next[name], current[name])) continue
      values[name] = next[name]
      isChanged = true
    }
    if (!isChanged) return
    if (search.some((name) => name in values)) {
      Object.assign(values, getSearchColumn(Object.assign({}, current, values)))
    }
    const { names } = readNames(values)
    const previous: Record<string, unknown> = {}
    for (const name of getShownNames(names)) previous[name] = current[name]
    return { values, names, previous }
  }

  /** Updates a row that is locked. */
  const updateOne = async (connection: Connection, origin: ChangeOrigin, { current, difference }: Update) => {
    const { values, names, previous } = difference
    const [row] = await runAll(connection, origin, {
      kind: 'updated',
      shape: `${names}`,
      values: { ...values, ...toCurrentValues(current), previous: JSON.stringify(previous) },
      build: (db) => ({
        change: buildUpdate(db, names).where(isCurrent),
        previous: sql`${sql.placeholder('previous')}::json`,
      }),
    })
    if (!row) throw createStaleError()
    return row
  }

  /** Updates rows that are locked: each has the names of the columns that it sets, since not all set the same ones. */
  const updateTogether = async (
    connection: Connection,
    origin: ChangeOrigin,
    updates: readonly Update[],
    returning: Record<string, PgColumn>,
  ): Promise<Row[]> => {
    const set = new Set(updates.flatMap(({ difference }) => difference.names))
    const names = columnNames.filter((name) => set.has(name))
    const rows = await writeJsonRows(updates, ({ current, difference }, position) => ({
      sent_id: current.id,
      sent_revision: current.revision,
      sent_position: position,
      sent_names: difference.names,
      sent_previous: difference.previous,
      ...toJsonRow(columns, difference.names, difference.values),
    }))
    const types = names.map((name) => {
      const type = sql.raw(getColumnType(getColumn(columns, name)))
      return sql`, ${sql.identifier(name)} ${type}`
    })
    const sent = sql`json_to_recordset(${sql.placeholder('rows')}::json) as sent(sent_id uuid, sent_revision bigint,
      sent_position integer, sent_names text[], sent_previous json${sql.join(types)})`
    const values = names.map((name) => {
      const isSet = sql`${sql.raw(`'${name}'`)} = any(sent.sent_names)`
      const column = getColumn(columns, name)
      return [name, sql`case when ${isSet} then sent.${sql.identifier(name)} else ${column} end`] as const
    })
    const updated = await runAll(connection, origin, {
      kind: 'updated',
      shape: `rows|${names}|${Object.keys(returning)}`,
      values: { rows },
      build: (db) => ({
        change: db
          .update(table)
          .set({ ...Object.fromEntries(values), ...toNextVersion() })
          .from(sent)
          .where(sql`${table.id} = sent.sent_id and ${table.revision} = sent.sent_revision`),
        former: { former_values: sql`sent.sent_previous`, sent_position: sql`sent.sent_position` },
        previous: sql`former_values`,
        order: sql`sent_position`,
      }),
      returning,
    })
    if (updated.length < updates.length) throw createStaleError()
    return updated
  }

  const changeRows: Stores['changeRows'] = async (connection, origin, changes, returning = allColumns) => {
    const differences = await mapInTurns(changes, findDifference, SHORT_TURN_MS)
    const updates = changes.flatMap(({ current }, i) => {
      const difference = differences[i]
      return difference ? [{ current, difference }] : []
    })
    if (updates.length === 0) return []
    await lockTable(connection)
    const updated: Row[] = []
    let together: Update[] = []
    const flush = async () => {
      const [first, second] = together
      if (second) updated.push(...(await updateTogether(connection, origin, together, returning)))
      else if (first) updated.push(await updateOne(connection, origin, first))
      together = []
    }
    for (const update of updates) {
      // Whether a value is taken depends on the order of the updates, which one statement does not keep.
      const isConstrained = update.difference.names.some((name) => constrainedColumns.has(name))
      if (isConstrained) await flush()
      together.push(update)
      if (isConstrained) await flush()
    }
    await flush()
    return updated
  }

  const updateUnread: Stores['updateUnread'] = async (
    connection,
    { id, parent: parentId, buildAllowed, actor, origin }: UnreadTarget,
    values,
  ) => {
    const { names, options } = readNames(values)
    const build = (db: Connection) => {
      const set = names.map((name) => [name, getColumn(columns, name)] as const)
      const differs = set.map(([name, column]) => sql`${column} is distinct from ${sql.placeholder(name)}`)
      // `old` has the former values, which PostgreSQL itself returns only from version 18 on. A locked row is skipped: the
      // caller then writes it in a transaction, which waits for the lock.
      const old = db
        .select({ ...Object.fromEntries(set), id: table.id, revision: table.revision })
        .from(table)
        .where(
          and(
            // Columns to set have placeholders of their own names.
            eq(table.id, sql.placeholder('target_id')),
            parent && eq(getColumn(columns, parent.member), sql.placeholder('target_parent')),
            buildAllowed(),
            or(...differs),
          ),
        )
        .for(names.some((name) => keyColumns.has(name)) ? 'update' : 'no key update', { skipLocked: true })
        .as('old')
      const shown = getShownNames(names)
      return {
        change: buildUpdate(db, names)
          .from(old)
          .where(and(eq(table.id, old.id), eq(table.revision, old.revision))),
        former: Object.fromEntries(
          shown.map((name) => [toFormer(name), sql`${sql.identifier('old')}.${sql.identifier(name)}`]),
        ),
        previous: buildPrevious(shown),
      }
    }
    const [row] = await runAll(connection, origin, {
      kind: 'updated',
      shape: `unread|${actor.role}|${names}`,
      values: { target_id: id, target_parent: parentId, caller: actor.userId, ...values },
      build,
      options,
    })
    return row
  }

  return { changeRows, updateUnread }
}
