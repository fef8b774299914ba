/** Decides which rows the paths of a rule permit to which callers, in one statement. */
import { formatRule } from '@resource-api/api/rules'
import type { StatementsByShape } from '@resource-api/database/client'
import { getColumnType } from '@resource-api/database/tables'
import { getTableColumns, getTableName, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { Permission, Resource, Select } from '../definition/resource.ts'
import { buildRuleCondition, getColumn } from './conditions.ts'
import { listRuleColumns } from './rule-paths.ts'

export function createPermittedReader(
  resource: Pick<Resource, 'columns' | 'relations' | 'table'>,
  statements: StatementsByShape,
): Select['findPermitted'] {
  return (connection, rule, rows, callers) => {
    const names = listRuleColumns(resource, rule)
    const statement = statements.get<Permission>(`permitted|${formatRule(rule)}`, (db) => {
      const columns = names.map((name) => {
        const type = sql.raw(getColumnType(getColumn(resource.columns, name)))
        return sql`${sql.identifier(name)} ${type}`
      })
      // The rows have the name of the table, so that the condition is the same as on its rows.
      const sent = sql`rows from (json_to_recordset(${sql.placeholder('rows')}::json) as (${sql.join(columns, sql`, `)}))
        with ordinality as ${sql.identifier(getTableName(resource.table))} (${sql.join(
          [...names.map((name) => sql.identifier(name)), sql`place`],
          sql`, `,
        )})`
      const condition = buildRuleCondition(resource, rule, {
        columns: getTableColumns(alias(resource.table, getTableName(resource.table))),
        getCaller: (column) => sql`caller.id::${sql.raw(getColumnType(column))}`,
      })
      return db.execute(sql`select ${sql.identifier(getTableName(resource.table))}.place - 1 as row, caller.place - 1 as caller
        from ${sent}, unnest(${sql.placeholder('callers')}::uuid[]) with ordinality as caller (id, place)
        where ${condition ?? sql`true`}`)
    })
    const values = rows.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])))
    return statement(connection, { rows: JSON.stringify(values), callers })
  }
}
