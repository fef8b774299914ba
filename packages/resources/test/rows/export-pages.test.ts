/** A page of an export is a limited number of bytes, whatever the sizes of its rows. */
import t from 'tap'
import { testDatabase } from '../../../testing/helpers/database.ts'
import type { Row } from '../../src/definition/store.ts'
import { createPageReader, type RowSource } from '../../src/operations/export-pages.ts'

const PAGE_BYTES = 131_072

const connection = await testDatabase(t)

/** Reads all pages of rows of these sizes. */
async function readAll(sizes: readonly number[]) {
  const source: RowSource = {
    async read({ position, size }) {
      const start = position ? Number(position[0]) + 1 : 0
      const end = start + size
      const rows = sizes.slice(start, end).map((length, i) => {
        return { id: `${start + i}`, revision: 1, updated_at: '', text: 'x'.repeat(length) }
      })
      return { rows, hasMore: end < sizes.length, connection }
    },
    getConnection: () => connection,
    rules: [],
  }
  const write = (row: Row) => `${row.id}:${row.text}\n`
  const readPage = createPageReader(source, {
    ...{ maxRows: 1_000, toPosition: ({ id }) => [String(id)], write },
    signal: new AbortController().signal,
  })
  const pages = [await readPage()]
  for (let next = pages[0]?.next; next; next = pages.at(-1)?.next) pages.push(await readPage(next))
  return pages
}

for (const [name, sizes] of Object.entries({
  'no rows': [],
  'short rows': Array.from({ length: 5_000 }, () => 100),
  'long rows behind short ones': Array.from({ length: 400 }, (_, i) => (i < 200 ? 10 : 20_000)),
  'rows longer than a page': [10, 400_000, 300_000, 10, 500_000],
}))
  t.test(`${name} are in pages of at most 128 KiB, or one row`, async (t) => {
    const pages = await readAll(sizes)
    const text = Buffer.concat(pages.map(({ bytes }) => bytes)).toString()
    t.ok(text === sizes.map((size, i) => `${i}:${'x'.repeat(size)}\n`).join(''), 'each row once, in order')
    for (const { bytes, rows } of pages)
      t.ok(bytes.length <= PAGE_BYTES || rows === 1, `${bytes.length} bytes of ${rows} rows`)
  })
