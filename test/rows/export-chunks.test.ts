/** A chunk of an export is a limited number of bytes, whatever the sizes of its rows. */
import t from 'tap'
import { type Chunk, type RowSource, readChunk } from '../../plugins/collection/operations/export-chunks.ts'
import type { Row } from '../../plugins/collection/store.ts'
import { testDatabase } from '../helpers/database.ts'

const CHUNK_BYTES = 262_144
const PIECE_BYTES = 131_072

const connection = await testDatabase(t)

/** Reads all chunks of rows of these sizes. */
async function readAll(sizes: readonly number[]): Promise<Chunk[]> {
  const source: RowSource = {
    async read(from) {
      const start = from ? Number(from.position[0]) + 1 : 0
      const end = start + (from?.size ?? 100)
      const rows = sizes.slice(start, end).map((size, i) => {
        return { id: `${start + i}`, revision: 1, updated_at: '', text: 'x'.repeat(size) }
      })
      return { rows, hasMore: end < sizes.length, connection }
    },
    getConnection: () => connection,
    rules: [],
  }
  const write = (row: Row) => `${row.id}:${row.text}\n`
  const options = {
    ...{ toPosition: ({ id }: Row) => [id], maxRows: 4_000, write },
    ...{ signal: new AbortController().signal, check: async () => undefined },
  }
  const chunks: Chunk[] = []
  do chunks.push(await readChunk(source, chunks.at(-1)?.next, options))
  while (chunks.at(-1)?.next)
  return chunks
}

for (const [name, sizes] of Object.entries({
  'no rows': [],
  'short rows': Array.from({ length: 5_000 }, () => 100),
  'long rows behind short ones': Array.from({ length: 400 }, (_, i) => (i < 200 ? 10 : 20_000)),
  'rows longer than a chunk': [10, 400_000, 300_000, 10, 500_000],
}))
  t.test(`${name} are in chunks of at most 256 KiB, or one row`, async (t) => {
    const chunks = await readAll(sizes)
    const text = chunks.map(({ pieces }) => Buffer.concat(pieces).toString()).join('')
    t.ok(text === sizes.map((size, i) => `${i}:${'x'.repeat(size)}\n`).join(''), 'each row once, in order')
    for (const { pieces, bytes, rows } of chunks) {
      t.ok(bytes <= CHUNK_BYTES || rows === 1, `${bytes} bytes of ${rows} rows`)
      t.ok(pieces.every(({ length }) => length <= PIECE_BYTES))
    }
  })
