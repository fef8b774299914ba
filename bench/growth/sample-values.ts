/** Draws from the data the ids, filter values and search words of the requests, in the same way at every size. */
import { getTableName } from 'drizzle-orm'
import type { Database } from '../../packages/database/src/client/index.ts'
import type { Resource } from '../../packages/resources/src/definition/resource.ts'
import type { Row } from '../../packages/resources/src/definition/store.ts'

export interface CollectionValues {
  /** Rows from the whole range of the table. */
  rows: readonly Row[]
  /** The member's own rows, if members see only those; else empty. */
  ownRows: readonly Row[]
  /** For each filter, its most frequent and its least frequent value. */
  filterValues: Readonly<Record<string, readonly { value: string; label: string }[]>>
  /** Search texts by their label. */
  searches: Readonly<Record<string, string>>
}

export interface SampleValues {
  adminId: string
  /** An active member with orders, a post and a profile. */
  memberId: string
  /** The user with the most posts. */
  authorId: string
  /** A date in the middle of the data. */
  middleDate: string
  collections: Readonly<Record<string, CollectionValues>>
}

const SAMPLE_ROWS = 9
const DATA_START = Date.UTC(2024, 0, 3)
const DATA_END = Date.UTC(2025, 11, 30)
const RARE_WORD = 'quokka'
/** The rows of each table that contain the rare word. */
const RARE_WORD_ROWS = 3

/** UUIDs (version 7) at regular intervals of the time range: rows are stored in the order of their ids. */
const sampleIds = Array.from({ length: SAMPLE_ROWS }, (_, i) => {
  const date = DATA_START + ((i + 0.5) / SAMPLE_ROWS) * (DATA_END - DATA_START)
  const time = Math.floor(date).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
})

async function readSampleRows(database: Database, table: string): Promise<Row[]> {
  const rows: Row[] = []
  for (const id of sampleIds) {
    const [row] = await database.run(`select * from "${table}" where id >= $1 order by id limit 1`, [id])
    if (row) rows.push(row as Row)
  }
  return rows
}

async function addRareWord(database: Database, table: string, rows: readonly Row[]): Promise<void> {
  for (const { id } of rows.slice(0, RARE_WORD_ROWS)) {
    await database.run(
      `update "${table}" set search = search || ' ${RARE_WORD}' where id = $1 and search not like '%${RARE_WORD}%'`,
      [id],
    )
  }
  await database.run(`select gin_clean_pending_list('${table}_search')`)
}

/** Returns the word that occurs in the most rows. */
function findCommonWord(rows: readonly Record<string, unknown>[]): string {
  const counts = new Map<string, number>()
  for (const { search } of rows) {
    const words = new Set(String(search).match(/[a-z]{3,}/g))
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  }
  const [[word = ''] = []] = [...counts].sort(([, a], [, b]) => b - a)
  return word
}

async function readFilterValues(
  database: Database,
  table: string,
  filters: readonly string[],
  rows: readonly Row[],
) {
  const valuesByFilter: Record<string, { value: string; label: string }[]> = {}
  for (const name of filters) {
    if (name === 'user_id') {
      valuesByFilter[name] = [{ value: String(rows[0]?.user_id), label: 'one user' }]
      continue
    }
    const counted = await database.run(
      `select ${name} as value from "${table}" group by 1 order by count(*) desc`,
    )
    const values = counted.map(({ value }) => ({ value: String(value), label: String(value) }))
    valuesByFilter[name] = [...values.slice(0, 1), ...values.slice(-1)]
  }
  return valuesByFilter
}

async function drawCollectionValues(
  database: Database,
  resource: Resource,
  { authorId, memberId }: Pick<SampleValues, 'authorId' | 'memberId'>,
): Promise<CollectionValues> {
  const table = getTableName(resource.table)
  const candidates = resource.parent
    ? await database.run(`select * from "${table}" where user_id = $1 order by id`, [authorId])
    : await readSampleRows(database, table)
  const interval = Math.max(1, Math.floor(candidates.length / SAMPLE_ROWS))
  const rows = candidates.filter((_, i) => i % interval === 0).slice(0, SAMPLE_ROWS) as Row[]
  const ownRows = (
    table === 'orders'
      ? await database.run('select * from orders where user_id = $1 order by id', [memberId])
      : []
  ) as Row[]
  await addRareWord(database, table, rows)
  const commonWord = findCommonWord(
    await database.run(`select search from "${table}" order by id desc limit 500`),
  )
  const searches = {
    'a rare word': RARE_WORD,
    'a common word': commonWord,
    'a rare and a common word': `${RARE_WORD} ${commonWord}`,
    'two letters, common': commonWord.slice(0, 2),
    'a word in no row': 'zzyzx',
    'two characters in no row': '§§',
  }
  // A look-up by a unique column costs the same as a read by id, and its values are as many as the rows.
  const filters = resource.filters.filter((name) => name === 'user_id' || !resource.uniqueColumns.has(name))
  const filterValues = await readFilterValues(database, table, filters, rows)
  return { rows, ownRows, filterValues, searches }
}

export async function drawSampleValues(
  database: Database,
  resources: readonly Resource[],
): Promise<SampleValues> {
  const readId = async (query: string) => {
    const [row] = await database.run(query)
    if (!row) throw new Error(`No row found by ${query}`)
    return String(row.id)
  }
  const adminId = await readId(`select id from users where role = 'admin' order by created_at limit 1`)
  const memberId = await readId(
    `select u.id from users u where role = 'member' and status = 'active' and id >= '${sampleIds[2]}'
       and (select count(*) from orders o where o.user_id = u.id) = 5
       and exists (select 1 from posts p where p.user_id = u.id)
       and exists (select 1 from user_profiles p where p.user_id = u.id) order by id limit 1`,
  )
  const authorId = await readId(`select user_id as id from posts where user_id in
    (select id from users where role <> 'admin' order by id limit 10) group by 1 order by count(*) desc limit 1`)
  const collections: Record<string, CollectionValues> = {}
  for (const resource of resources) {
    collections[resource.name] = await drawCollectionValues(database, resource, { authorId, memberId })
  }
  return { adminId, memberId, authorId, middleDate: '2025-01-01', collections }
}
