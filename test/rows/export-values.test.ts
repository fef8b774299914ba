/** Values whose text JSON may have to escape are exported as the list has them, also where no byte of a piece is free. */
import { Type } from '@sinclair/typebox'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, moment, text } from '../../drizzle/columns.ts'
import { Id, Nullable, Timestamp } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { define } from '../collection/adopted.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { createTable, insertRows } from '../helpers/rows.ts'
import { readRows, walkList } from './read-export.ts'

const labels = pgTable('labels', {
  ...common(),
  reference: text(),
  other_id: uuid(),
  seen_at: moment(),
})
const all = { admin: true } as const
const labelsResource = define(
  {
    name: 'labels',
    singular: 'Label',
    table: labels,
    fields: {
      // Its column takes any text.
      reference: Nullable(Type.String({ format: 'uuid', description: 'A reference' })),
      other_id: Nullable(Id('Another label')),
      seen_at: Nullable(Timestamp('When it was seen')),
    },
  },
  { access: { list: all, read: all, create: all } },
)

const database = await testDatabase(t)
await createTable(database, labels)
const { admin } = await testApp(t, {}, { database, resources: [...resources, labelsResource] })

t.test('a value is escaped if its column can have a character that JSON escapes', async (t) => {
  const id = '018f4e9a-0000-7000-8000-000000000000'
  await insertRows(database, 'labels', [
    { reference: 'a"b\\c\nd', other_id: id, seen_at: '2026-01-01T00:00:00.123456Z' },
    { reference: null, other_id: null, seen_at: null },
    { reference: '\u2028é😀', other_id: id, seen_at: '2026-01-01T00:00:00Z' },
  ])
  for (const version of ['', '/v2']) {
    const rows = await readRows(admin, `${version}/labels`)
    t.equal(rows.length, 3)
    t.strictSame(rows, await walkList(admin, `${version}/labels`))
  }
  await database.run('delete from labels')
})

t.test('rows of any size are whole, however many bytes their characters take', async (t) => {
  const PIECE_BYTES = 131_072
  const sizes = [1, 200, 43_000, 44_000, 70_000, PIECE_BYTES, 1, 65_000, 65_300, 20_000, 20_000, 20_000, 1]
  for (const character of ['a', 'é', '€', '😀']) {
    await insertRows(
      database,
      'labels',
      sizes.map((size) => ({ reference: character.repeat(size) })),
    )
    const rows = await readRows(admin, '/labels')
    t.strictSame(
      rows.map(({ reference }) => reference.length / character.length).sort((a, b) => a - b),
      sizes.toSorted((a, b) => a - b),
      character,
    )
    t.ok(rows.every(({ reference }) => reference === character.repeat(reference.length / character.length)))
    await database.run('delete from labels')
  }
})
