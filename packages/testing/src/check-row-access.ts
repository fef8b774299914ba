/** Checks that lists, counts, searches and cursors show only rows that the access rules allow, whatever is asked. */
import { getRowParts } from '@resource-api/database/key'
import { type Role, roles } from '@resource-api/database/roles'
import { readMatrix } from '@resource-api/resources/access-matrix'
import { getUniqueColumns, type ResourceDefinition } from '@resource-api/resources/internal'
import type { BuildApp, TestOverrides } from './app.ts'
import { type AccessOptions, type CheckedApp, type CheckTest, startChecked } from './check.ts'
import { checkListQueries } from './check-list-queries.ts'
import type { Client } from './client.ts'
import { type Cell, followsRelations, getComparableValues, getComparedFields } from './definitions.ts'
import { createOwnedRows, type Values } from './example-rows.ts'
import { createRowRules } from './related-rows.ts'
import { collectIds } from './replies.ts'

/** A word that is found in every row of this file's. */
const WORD = 'quince'

/** Returns the first searched field in which rows may have the same text. */
const getSearchedField = (definition: ResourceDefinition) =>
  definition.search.find((field) => !getUniqueColumns(definition.table).has(field))

interface Listed {
  id: string
  own: boolean
  [field: string]: unknown
}

/** All ids of a list, three to a page. */
const collectAll = (by: Client, path: string) =>
  collectIds(by, `${path}${path.includes('?') ? '&' : '?'}limit=3`)

/** How many a list with a total says there are, in the body and in HEAD's `Link`. */
async function readTotals(by: Client, path: string): Promise<number[]> {
  const query = `${path}${path.includes('?') ? '&' : '?'}page=1&limit=1`
  const { total, total_pages: pages } = (await by.get(query)).body.pagination
  const link = (await by.call('HEAD', query)).headers.get('link') ?? ''
  const last = /[?&]page=(\d+)[^>]*>; rel="last"/.exec(link)?.[1]
  return [total, pages, Number(last ?? 0)]
}

/** Checks the rows that lists show. */
export async function checkRowAccess<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  { promises = readMatrix(), ...options }: AccessOptions<O> = {},
): Promise<void> {
  await t.test('rows', { skip: false }, async (t) =>
    checkLists(t, await startChecked(t, buildApp, options, promises)),
  )
}

async function checkLists(t: CheckTest, api: CheckedApp): Promise<void> {
  const { app, database, getReason, peopleOfAllRoles, person } = api
  const { definitions, getDefinition, getOwnerColumn, getTable, matrix } = api.definitions
  const prefix = `/api/v${app.versions[0]?.representation.version}`
  const ownedRows = createOwnedRows(database, api)
  const rules = createRowRules(database, api.definitions)
  const people = await peopleOfAllRoles()
  const other = await person('member')
  const users = [...Object.values(people), other]

  /** Inserts rows of a user: one for each value of the fields that access rules compare. */
  async function insertRows(definition: ResourceDefinition, owner: string): Promise<void> {
    const field = getSearchedField(definition)
    const common = field === undefined ? {} : { [field]: WORD }
    const variants: Values[] = getComparedFields(definition).flatMap((compared) =>
      getComparableValues(definition, compared).map((value) => ({ [compared]: value })),
    )
    for (const variant of variants.length > 0 ? variants : [{}]) {
      await ownedRows.make(definition.name, owner, { ...common, ...variant })
    }
  }

  for (let i = 0; i < 2; i++) await ownedRows.user({ name: WORD })
  for (const definition of definitions) {
    if (!(definition.name in matrix) || definition.name === 'users' || getReason(definition.name) !== false)
      continue
    for (const { id } of users) await insertRows(definition, id)
  }

  /** All rows of a list as they stand in the table, and whose they are. */
  async function readRows(collection: string, caller: string, parent: string): Promise<Listed[]> {
    const definition = getDefinition(collection)
    const column = definition.parent?.member
    const key = getRowParts(definition.table).key.parts[0].column.name
    const where = column ? ` where "${column}" = '${await ownedRows.getParent(collection, parent)}'` : ''
    const rows = await database.run(`select *, "${key}" as id from "${getTable(collection)}"${where}`)
    const owner = getOwnerColumn(definition) ?? ''
    return rows.map((row) => ({ ...row, id: String(row.id), own: caller === row[owner] }))
  }

  /** Runs a check with each value of the columns of related rows that rules compare, and resets the column. */
  async function withRelatedValues(definition: ResourceDefinition, run: () => Promise<void>): Promise<void> {
    const columns = rules.listRelatedColumns(definition)
    if (columns.length === 0) await run()
    for (const { table, column, values } of columns) {
      const before = await database.run(`select id, "${column}" as value from "${table}"`)
      for (const value of values) {
        await database.run(`update "${table}" set "${column}" = $1`, [value])
        await run()
      }
      for (const { id, value } of before)
        await database.run(`update "${table}" set "${column}" = $1 where id = $2`, [
          String(value),
          String(id),
        ])
    }
  }

  for (const [collection, verbs] of Object.entries(matrix)) {
    const skip = getReason(collection)
    await t.test(
      `${collection}: rows that may not be read are not listed, counted, paged or found`,
      { skip },
      async (t) => {
        const definition = getDefinition(collection)
        for (const role of roles) {
          const cell: Cell = verbs.list?.[role] ?? 'none'
          if (cell !== 'none') await withRelatedValues(definition, () => checkRole(t, definition, role, cell))
        }
      },
    )
  }

  await checkListQueries(t, api, people, ownedRows.getListPath)

  /** Compares what a role is shown with the rows that a cell allows. */
  async function checkRole(t: CheckTest, definition: ResourceDefinition, role: Role, cell: Cell) {
    const { id, bearer } = people[role]
    const isRelated = followsRelations(cell)
    for (const parent of definition.parent ? [id, other.id] : [id]) {
      const path = `${prefix}${await ownedRows.getListPath(definition.name, parent)}`
      const rows = await readRows(definition.name, id, parent)
      const seen = (await rules.filterAllowed(definition, cell, rows, id)).map((row) => row.id)
      if (parent === id) t.ok(isRelated || seen.length > 0)
      else t.ok(cell === 'all' || isRelated || seen.length < rows.length)
      const search = `${path}?search=${WORD}`
      const found = getSearchedField(definition)
        ? (await collectAll(people.admin.bearer, search)).filter((each) => seen.includes(each))
        : undefined
      for (const [list, ids] of [
        [path, seen],
        [search, found],
      ] as const) {
        if (ids === undefined) continue
        t.ok(ids.length > 0 || parent !== id || isRelated)
        t.same((await collectAll(bearer, list)).sort(), ids.sort(), `${role}: ${list}`)
        t.same(await readTotals(bearer, list), Array(3).fill(ids.length), `${role}: the total of ${list}`)
      }
    }
  }
}
