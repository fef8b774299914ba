/** Values to ask with: drawn from the data, the same way at every size. */
import { getTableName } from 'drizzle-orm'
import type { Database } from '../../drizzle/client/index.ts'
import type { Row } from '../../plugins/collection/definition.ts'
import type { ResolvedResource } from '../../plugins/collection/resolve.ts'

export interface CollectionSample {
  /** From all over the table. */
  rows: readonly Row[]
  /** Those that the member may see, where that is but a few. */
  own: readonly Row[]
  /** Of each filter: what most rows have, and what the fewest. */
  values: Readonly<Record<string, readonly { value: string; label: string }[]>>
  /** Words to search for, by what they are. */
  words: Readonly<Record<string, string>>
}

export interface Sample {
  adminId: string
  /** An active member with orders, a post and a profile. */
  memberId: string
  /** The user who wrote most. */
  author: string
  /** A day in the middle of the data. */
  middle: string
  collections: Readonly<Record<string, CollectionSample>>
}

const ROWS = 9
const YEARS = { from: Date.UTC(2024, 0, 3), to: Date.UTC(2025, 11, 30) }
/** In three rows of each table. */
const RARE = 'quokka'
const MARKED = 3

/** Ids in even steps through the two years of the data: rows stand in the order of their ids, and in no other. */
const steps = Array.from({ length: ROWS }, (_, i) => {
  const moment = YEARS.from + ((i + 0.5) / ROWS) * (YEARS.to - YEARS.from)
  const time = Math.floor(moment).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
})

async function rowsOf(database: Database, table: string): Promise<Row[]> {
  const found: Row[] = []
  for (const id of steps) {
    const [row] = await database.run(`select * from "${table}" where id >= $1 order by id limit 1`, [id])
    if (row) found.push(row as Row)
  }
  return found
}

async function mark(database: Database, table: string, rows: readonly Row[]): Promise<void> {
  for (const { id } of rows.slice(0, MARKED)) {
    await database.run(
      `update "${table}" set search = search || ' ${RARE}' where id = $1 and search not like '%${RARE}%'`,
      [id],
    )
  }
  await database.run(`select gin_clean_pending_list('${table}_search')`)
}

/** The word that most of the rows have. */
function commonWord(rows: readonly Record<string, unknown>[]): string {
  const counts = new Map<string, number>()
  for (const { search } of rows) {
    const words = new Set(String(search).match(/[a-z]{3,}/g))
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  }
  const [[word = ''] = []] = [...counts].sort(([, a], [, b]) => b - a)
  return word
}

async function valuesOf(database: Database, table: string, filters: readonly string[], rows: readonly Row[]) {
  const found: Record<string, { value: string; label: string }[]> = {}
  for (const name of filters) {
    if (name === 'user_id') {
      found[name] = [{ value: String(rows[0]?.user_id), label: 'one of them' }]
      continue
    }
    const counted = await database.run(
      `select ${name} as value from "${table}" group by 1 order by count(*) desc`,
    )
    const values = counted.map(({ value }) => ({ value: String(value), label: String(value) }))
    found[name] = [...values.slice(0, 1), ...values.slice(-1)]
  }
  return found
}

async function collectionSample(
  database: Database,
  resource: ResolvedResource,
  { author, memberId }: Pick<Sample, 'author' | 'memberId'>,
): Promise<CollectionSample> {
  const table = getTableName(resource.table)
  const all = resource.parent
    ? await database.run(`select * from "${table}" where user_id = $1 order by id`, [author])
    : await rowsOf(database, table)
  const every = Math.max(1, Math.floor(all.length / ROWS))
  const rows = all.filter((_, i) => i % every === 0).slice(0, ROWS) as Row[]
  const own = (
    table === 'orders'
      ? await database.run('select * from orders where user_id = $1 order by id', [memberId])
      : []
  ) as Row[]
  await mark(database, table, rows)
  const texts = await database.run(`select search from "${table}" order by id desc limit 500`)
  const common = commonWord(texts)
  const words = {
    'a rare word': RARE,
    'a common word': common,
    'a rare and a common word': `${RARE} ${common}`,
    'two letters, common': common.slice(0, 2),
    'a word that nothing has': 'zzyzx',
    'two letters that nothing has': '§§',
  }
  return { rows, own, values: await valuesOf(database, table, resource.filters, rows), words }
}

export async function draw(database: Database, resources: readonly ResolvedResource[]): Promise<Sample> {
  const idOf = async (text: string) => {
    const [row] = await database.run(text)
    if (!row) throw new Error(`Nothing is found by ${text}`)
    return String(row.id)
  }
  const adminId = await idOf(`select id from users where role = 'admin' order by created_at limit 1`)
  const memberId = await idOf(
    `select u.id from users u where role = 'member' and status = 'active' and id >= '${steps[2]}'
       and (select count(*) from orders o where o.user_id = u.id) = 5
       and exists (select 1 from posts p where p.user_id = u.id)
       and exists (select 1 from user_profiles p where p.user_id = u.id) order by id limit 1`,
  )
  const author = await idOf(`select user_id as id from posts where user_id in
    (select id from users where role <> 'admin' order by id limit 10) group by 1 order by count(*) desc limit 1`)
  const collections: Record<string, CollectionSample> = {}
  for (const resource of resources) {
    collections[resource.name] = await collectionSample(database, resource, { author, memberId })
  }
  return { adminId, memberId, author, middle: '2025-01-01', collections }
}
