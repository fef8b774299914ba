/** Tables of lists: a line for each path, with the rows that it has or the violations that refuse it. */
import type { Test } from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import type { Client } from '../../../testing/helpers/app.ts'
import { checkRefusals, getIds, getViolations } from '../../../testing/helpers/replies.ts'
import { insertRows, type Values } from '../../../testing/helpers/rows.ts'

/**
 * Checks that a list refuses each value with this violation of the parameter alone.
 * @param parameter with the path, such as `/users?status`
 * @param values percent-encoded, and separated by white space
 */
export function checkValues(t: Test, client: Client, parameter: string, code: string, values: string) {
  const violation = `${parameter.replace(/.*\?/, '')} ${code}`
  const paths = values.split(/\s+/).map((value) => [`${parameter}=${value}`, [violation]])
  return checkRefusals(t, client, Object.fromEntries(paths))
}

/** @param others clients by their names in the tables; `admin` is the caller of a line that names none */
export function createListTables(
  database: Database,
  admin: Client,
  others: Readonly<Record<string, Client>> = {},
) {
  const names = new Map<string, string>()

  const find = async (path: string, caller?: string) => {
    const client = caller === undefined ? admin : others[caller]
    if (!client) throw new Error(`There is no caller ${caller}`)
    const reply = await client.get(path)
    if (reply.status !== 200) return { found: [String(reply.status), ...getViolations(reply)].join(' ') }
    const rows = getIds(reply).map((id) => names.get(id) ?? id)
    // Where the path names no order, that of the lists decides, and another test looks at it.
    if (!path.includes('sort=')) rows.sort()
    return { found: rows.join(' '), total: reply.body.pagination.total, count: rows.length }
  }

  return {
    /** Names a row that exists. */
    name: (name: string, id: string) => names.set(id, name),
    /** Inserts rows by their names in the tables, and returns their ids. */
    async insert(table: string, rows: Readonly<Record<string, Values>>): Promise<string[]> {
      const ids = await insertRows(database, table, Object.values(rows))
      for (const [i, name] of Object.keys(rows).entries()) names.set(ids[i] ?? '', name)
      return ids
    },
    /**
     * Checks each line of a table:
     * - `/users?status=active -> ada bob`, or `ada /users?... ->` with a caller and no rows. Rows are in the order of the
     *   list if the path sorts, else in that of their names; a list by page has their number as its total.
     * - `/users?status !! INVALID_VALUE no ACTIVE ''`: each of the values is refused with this violation alone.
     * - `/users?a=1&b=2 !! a UNKNOWN_PARAMETER, b UNKNOWN_PARAMETER`.
     */
    async check(t: Test, table: string) {
      for (const line of table.split('\n').map((text) => text.trim())) {
        if (line === '' || line.startsWith('#')) continue
        const [, caller, path = '', sign, expected = ''] =
          /^(?:(\w+) )?(\S+) +(->|!!) ?(.*)$/.exec(line) ?? []
        if (sign === '->') {
          const { found, total, count } = await find(path, caller)
          t.equal(found, expected, line.slice(0, 200))
          if (path.includes('page=')) t.equal(total, count, `the total of ${path}`)
        } else if (sign === '!!' && /[?&][^=]+$/.test(path)) {
          const [code = '', ...values] = expected.split(' ')
          await checkValues(t, admin, path, code, values.join(' ').replace("''", ''))
        } else if (sign === '!!') {
          await checkRefusals(t, admin, { [path]: expected.split(', ') })
        } else throw new Error(`No line of a table: ${line}`)
      }
    },
    find: async (path: string) => (await find(path)).found,
  }
}
