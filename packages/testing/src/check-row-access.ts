/** Checks that lists, counts, searches and cursors show only rows that the access rules allow. */
import { roles } from '@resource-api/database/internal'
import { getUniqueColumns, type ResourceDefinition } from '@resource-api/resources/internal'
import type { BuildApp, TestOverrides } from './app.ts'
import { type AccessOptions, type CheckedApp, type CheckTest, startChecked } from './check.ts'
import type { Client } from './client.ts'
import {
  allowsRow,
  type Cell,
  followsRelations,
  getComparableValues,
  getComparedFields,
} from './definitions.ts'
import { createOwnedRows, type Values } from './example-rows.ts'
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
const walked = (by: Client, path: string) => collectIds(by, `${path}${path.includes('?') ? '&' : '?'}limit=3`)

/** How many a list with a total says there are, in the body and in HEAD's `Link`. */
async function counted(by: Client, path: string): Promise<number[]> {
  const query = `${path}${path.includes('?') ? '&' : '?'}page=1&limit=1`
  const { total, total_pages: pages } = (await by.get(query)).body.pagination
  const link = (await by.call('HEAD', query)).headers.get('link') ?? ''
  const last = /[?&]page=(\d+)[^>]*>; rel="last"/.exec(link)?.[1]
  return [total, pages, Number(last ?? 0)]
}

/** Returns the ids of the rows that a caller may read alone. */
async function listReadable(by: Client, path: string, rows: readonly Listed[]): Promise<string[]> {
  const statuses = await Promise.all(rows.map(async ({ id }) => (await by.get(`${path}/${id}`)).status))
  return rows.filter((_, i) => statuses[i] === 200).map(({ id }) => id)
}

/** Checks the rows that lists show. */
export async function checkRowAccess<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  { promises, ...options }: AccessOptions<O> = {},
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
  const people = await peopleOfAllRoles()
  const stranger = await person('member')
  const everybody = [...Object.values(people), stranger]

  /** Inserts rows of a user: one for each value of the fields that access rules compare. */
  async function insertRowsOf(definition: ResourceDefinition, owner: string): Promise<void> {
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
    if (definition.name === 'users' || definition.name === 'events' || getReason(definition.name) !== false)
      continue
    for (const { id } of everybody) await insertRowsOf(definition, id)
  }

  /** All rows of a list as they stand in the table, and whose they are. */
  async function rowsOf(collection: string, caller: string, parent: string): Promise<Listed[]> {
    const definition = getDefinition(collection)
    const column = definition.parent?.member
    const where = column ? ` where "${column}" = '${await ownedRows.getParent(collection, parent)}'` : ''
    const rows = await database.run(`select * from "${getTable(collection)}"${where}`)
    const owner = getOwnerColumn(definition) ?? ''
    return rows.map((row) => ({ ...row, id: String(row.id), own: caller === row[owner] }))
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
          const isRelated = followsRelations(cell)
          // What relations permit follows from other rows: a list is compared with reads, where both have the same rule.
          if (cell === 'none' || (isRelated && verbs.read?.[role] !== cell)) continue
          const { id, bearer } = people[role]
          for (const parent of definition.parent ? [id, stranger.id] : [id]) {
            const path = `${prefix}${await ownedRows.listOf(collection, parent)}`
            const rows = await rowsOf(collection, id, parent)
            const seen = isRelated
              ? await listReadable(bearer, path, rows)
              : rows.filter((row) => allowsRow(cell, row)).map((row) => row.id)
            if (parent === id) t.ok(isRelated || seen.length > 0)
            else t.ok(cell === 'all' || isRelated || seen.length < rows.length)
            const search = `${path}?search=${WORD}`
            const found = getSearchedField(definition)
              ? (await walked(people.admin.bearer, search)).filter((each) => seen.includes(each))
              : undefined
            for (const [list, ids] of [
              [path, seen],
              [search, found],
            ] as const) {
              if (ids === undefined) continue
              t.ok(ids.length > 0 || parent !== id || isRelated)
              t.same((await walked(bearer, list)).sort(), ids.sort(), `${role}: ${list}`)
              t.same(await counted(bearer, list), Array(3).fill(ids.length), `${role}: the total of ${list}`)
            }
          }
        }
      },
    )
  }
}
