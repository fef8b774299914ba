/** Updates rows, and increments their revisions. */
import { type Connection, nextUpdatedAt } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import { mapInTurns, SHORT_TURN_MS } from '@resource-api/database/concurrency'
import { getIdType, hasId } from '@resource-api/database/key'
import { getColumnType, toNames } from '@resource-api/database/tables'
import { and, eq, or, type SQL, sql } from 'drizzle-orm'
import type { ChangeTarget, RowUpdate, Stores } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import type { ChangeOrigin } from '../outbox/origin.ts'
import { getColumn } from './conditions.ts'
import { findConflictColumns } from './constraint-errors.ts'
import { toJsonRow, writeJsonRows } from './json-rows.ts'
import { type StatementRunner, toPlaceholders, type WrittenResource } from './statement-runner.ts'
import { getKeyColumns } from './table-facts.ts'

/** A row with the values that it gets, and the columns that these are. */
interface Update {
  current: Row
  values: Values
  names: readonly string[]
}

const toFormer = (name: string) => `former_${name}`

function buildPrevious(columns: StatementRunner['columns'], names: readonly string[]): SQL {
  const parts = names.map((name) => ({
    key: sql.raw(`'${name}'`),
    value: toNames(getColumn(columns, name)),
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
  resource: WrittenResource,
): Pick<Stores, 'changeRows' | 'changeAtOnce'> {
  const { parent, search } = resource
  const { table, columns, columnNames, key, recordedColumns, revision, rowParts } = runner
  const idType = sql.raw(getIdType(key))
  const { getSearchColumn, listNames, lockTable, runAll } = runner
  const keyColumns = getKeyColumns(resource)
  const conflictColumns = findConflictColumns(resource)

  const getShownNames = (names: readonly string[]) =>
    names.filter((name) => Object.hasOwn(recordedColumns, name))

  const updatedAt = rowParts.updated && getColumn(columns, rowParts.updated)
  /** The clock of other programs that write the table is another one. */
  const nextTime =
    updatedAt && rowParts.revision ? nextUpdatedAt({ updated_at: updatedAt }) : sql`statement_timestamp()`
  const toNextVersion = () => ({
    ...(rowParts.revision && { revision: sql`${revision} + 1` }),
    ...(rowParts.updated && { [rowParts.updated]: nextTime }),
  })

  const buildUpdate = (db: Connection, names: readonly string[]) =>
    db.update(table).set({ ...toPlaceholders(names), ...toNextVersion() })

  /** Returns what the statement needs of a change; undefined if no column differs. */
  const toUpdate = ({ current, values: changed }: RowUpdate): Update | undefined => {
    if (listNames(changed).length === 0) return
    const isSearched = search.some((name) => name in changed)
    const searchColumn = isSearched ? getSearchColumn(Object.assign({}, current, changed)) : undefined
    const values: Values = Object.assign({}, changed, searchColumn)
    return { current, values, names: listNames(values) }
  }

  /** Updates rows that are locked: each has the names of the columns that it sets, since not all set the same ones. */
  const updateRows = async (connection: Connection, origin: ChangeOrigin, updates: readonly Update[]) => {
    const set = new Set(updates.flatMap((each) => each.names))
    const names = columnNames.filter((name) => set.has(name))
    const rows = await writeJsonRows(updates, (update, position) => ({
      sent_id: key.split?.(update.current.id) ?? update.current.id,
      sent_revision: update.current.revision,
      sent_position: position,
      sent_names: update.names,
      sent_previous: Object.fromEntries(
        getShownNames(update.names).map((name) => [name, update.current[name]]),
      ),
      ...toJsonRow(columns, update.names, update.values),
    }))
    const types = names.map((name) => {
      const column = getColumn(columns, name)
      return sql`, ${sql.identifier(column.name)} ${sql.raw(getColumnType(column))}`
    })
    const sent = sql`json_to_recordset(${sql.placeholder('rows')}::json) as sent(sent_id ${idType}, sent_revision bigint,
      sent_position integer, sent_names text[], sent_previous json${sql.join(types)})`
    const values = names.map((name) => {
      const isSet = sql`${sql.raw(`'${name}'`)} = any(sent.sent_names)`
      const column = getColumn(columns, name)
      return [
        name,
        sql`case when ${isSet} then sent.${sql.identifier(column.name)} else ${column} end`,
      ] as const
    })
    return runAll(connection, origin, {
      kind: 'updated',
      shape: `${names}`,
      count: updates.length,
      values: { rows },
      build: (db) => ({
        change: db
          .update(table)
          .set({ ...Object.fromEntries(values), ...toNextVersion() })
          .from(sent)
          .where(sql`${hasId(key, sql`sent.sent_id`)} and ${revision} = sent.sent_revision`),
        former: { former_values: sql`sent.sent_previous`, sent_position: sql`sent.sent_position` },
        previous: sql`former_values`,
        order: sql`sent_position`,
      }),
    })
  }

  const changeRows: Stores['changeRows'] = async (connection, origin, changes) => {
    const rows = new Map(changes.map(({ current }) => [current.id, current]))
    const updates = (await mapInTurns(changes, toUpdate, SHORT_TURN_MS)).filter((each) => each !== undefined)
    if (updates.length > 0) await lockTable(connection)
    // Whether a unique value is taken depends on the order of the updates, which one statement does not keep.
    const canConflict = ({ names }: Update) => names.some((name) => conflictColumns.has(name))
    const groups: Update[][] = []
    for (const [i, update] of updates.entries()) {
      const before = updates[i - 1]
      const group = groups.at(-1)
      if (group && before && !canConflict(before) && !canConflict(update)) group.push(update)
      else groups.push([update])
    }
    for (const group of groups) {
      for (const row of await updateRows(connection, origin, group)) rows.set(row.id, row)
    }
    return [...rows.values()]
  }

  const changeAtOnce: Stores['changeAtOnce'] = async (
    connection,
    { id, parent: parentId, buildAllowed, actor, origin }: ChangeTarget,
    values,
  ) => {
    const names = listNames(values)
    const [{ column: idColumn }] = key.parts
    const { revision: revisionColumn } = rowParts
    if (!revisionColumn) throw new Error('The statement compares revisions')
    const build = (db: Connection) => {
      const set = names.map((name) => [name, getColumn(columns, name)] as const)
      const differs = set.map(([name, column]) => sql`${column} is distinct from ${sql.placeholder(name)}`)
      // `old` has the former values, which PostgreSQL itself returns only from version 18 on. A locked row is skipped: the
      // caller then writes it in a transaction, which waits for the lock.
      const old = db
        .select({ ...Object.fromEntries(set), id: idColumn, revision: revisionColumn })
        .from(table)
        .where(
          and(
            // Columns to set have placeholders of their own names.
            eq(idColumn, sql.placeholder('target_id')),
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
          .where(and(eq(idColumn, old.id), eq(revisionColumn, old.revision))),
        former: Object.fromEntries(
          shown.map((name) => [
            toFormer(name),
            sql`${sql.identifier('old')}.${toNames(getColumn(columns, name))}`,
          ]),
        ),
        previous: buildPrevious(columns, shown),
      }
    }
    const [row] = await runAll(connection, origin, {
      kind: 'updated',
      shape: `at once|${actor.role}|${names}`,
      canBatch: true,
      values: { target_id: id, target_parent: parentId, caller: actor.userId, ...values },
      build,
    })
    return row
  }

  return { changeRows, changeAtOnce }
}
