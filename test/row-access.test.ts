/** Lists, counts, searches, includes and cursors show only rows that docs/access-matrix.json allows. */
import t from 'tap'
import { roles } from '../packages/database/src/roles.ts'
import type { ResourceDefinition } from '../packages/resources/src/collection/definition.ts'
import { getUniqueColumns } from '../packages/resources/src/collection/sql/table-facts.ts'
import { type Client, testApp } from '../packages/testing/helpers/app.ts'
import {
  definitions as allDefinitions,
  allowsRow,
  type Cell,
  followsRelations,
  getComparableValues,
  getComparedFields,
  getDefinition,
  getOwnerColumn,
  getTable,
  matrix,
} from '../packages/testing/helpers/definitions.ts'
import { createOwnedRows } from '../packages/testing/helpers/example-rows.ts'
import { collectIds } from '../packages/testing/helpers/replies.ts'
import { insertRows, type Values } from '../packages/testing/helpers/rows.ts'

const { database, peopleOfAllRoles, person } = await testApp(t)
/** The access to an event depends on its resource: see packages/events/test/events/access.test.ts. */
const definitions = allDefinitions.filter(({ name }) => name !== 'events')
const ownedRows = createOwnedRows(database)
const people = await peopleOfAllRoles()
const stranger = await person('member')
const everybody = [...Object.values(people), stranger]

/** A word that is found in every row of this file's. */
const WORD = 'quince'

/** Returns the first searched field in which rows may have the same text. */
const getSearchedField = (definition: ResourceDefinition) =>
  definition.search.find((field) => !getUniqueColumns(definition.table).has(field))

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

await insertRows(database, 'users', [{ name: WORD }, { name: WORD }])
for (const definition of definitions) {
  if (definition.name === 'users') continue
  for (const { id } of everybody) await insertRowsOf(definition, id)
}

interface Listed {
  id: string
  own: boolean
  [field: string]: unknown
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

for (const [collection, verbs] of Object.entries(matrix)) {
  t.test(`${collection}: rows that may not be read are not listed, counted, paged or found`, async (t) => {
    const definition = getDefinition(collection)
    for (const role of roles) {
      const cell: Cell = verbs.list?.[role] ?? 'none'
      const isRelated = followsRelations(cell)
      // What relations permit follows from other rows: a list is compared with reads, where both have the same rule.
      if (cell === 'none' || (isRelated && verbs.read?.[role] !== cell)) continue
      const { id, bearer } = people[role]
      for (const parent of definition.parent ? [id, stranger.id] : [id]) {
        const path = `/api/v1${await ownedRows.listOf(collection, parent)}`
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
  })
}
