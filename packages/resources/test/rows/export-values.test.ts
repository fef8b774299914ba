/** Values of each type, and those that JSON has to escape, are exported as the list has them, also where a page is full. */
import { Type } from '@sinclair/typebox'
import { boolean, date, jsonb, numeric, pgTable, smallint, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { Decimal, Id, Integer, Nullable, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import { common, moment, text } from '../../../database/src/columns.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { createTable, insertRows, type Values } from '../../../testing/helpers/rows.ts'
import { define } from '../collection/adopted.ts'
import { readRows, walkList } from './read-export.ts'

const labels = pgTable('labels', {
  ...common(),
  reference: text(),
  other_id: uuid(),
  seen_at: moment(),
  is_open: boolean(),
  was_open: boolean().notNull().default(false),
  weight: numeric({ precision: 8, scale: 3 }),
  size: smallint(),
  day: date(),
  details: jsonb(),
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
      is_open: Nullable(Type.Boolean({ description: 'Whether it is open' })),
      was_open: Type.Boolean({ description: 'Whether it was open', default: false }),
      weight: Nullable(Decimal(8, 3, { description: 'Kilograms' })),
      size: Nullable(Integer(-9, 9, { description: 'A size' })),
      day: Nullable(Type.String({ format: 'date', description: 'A day' })),
      details: Nullable(Type.Object({ text: Text({ description: 'A text' }) }, { description: 'Details' })),
    },
  },
  { access: { list: all, read: all, create: all } },
)

const database = await testDatabase(t)
await createTable(database, labels)
const { admin } = await testApp(t, {}, { database, resources: [...resources, labelsResource] })

const id = '018f4e9a-0000-7000-8000-000000000000'
const ROWS: Readonly<Record<string, Values[]>> = {
  'texts that JSON escapes': [
    { reference: 'a"b\\c\nd', other_id: id, seen_at: '2026-01-01T00:00:00.123456Z' },
    { reference: null, other_id: null, seen_at: null },
    { reference: '\u2028é😀', other_id: id, seen_at: '2026-01-01T00:00:00Z' },
  ],
  'each type of column': [
    {
      ...{ is_open: true, was_open: true, weight: '-1.500', size: -9, day: '2026-01-31' },
      details: JSON.stringify({ text: ' a\u001fb"' }),
    },
    { is_open: false, was_open: false, weight: '0', size: 0, day: null, details: null },
    {},
  ],
}

for (const [name, inserted] of Object.entries(ROWS))
  t.test(`values of ${name} are those of the list`, async (t) => {
    await insertRows(database, 'labels', inserted)
    for (const version of ['', '/v2']) {
      const rows = await readRows(admin, `${version}/labels`)
      t.equal(rows.length, 3)
      t.strictSame(rows, await walkList(admin, `${version}/labels`))
    }
    await database.run('delete from labels')
  })

t.test('rows of any size are whole, however many bytes their characters take', async (t) => {
  const PAGE_BYTES = 131_072
  const sizes = [1, 200, 43_000, 44_000, 70_000, PAGE_BYTES, 1, 65_000, 65_300, 20_000, 20_000, 20_000, 1]
  for (const character of ['a', 'é', '€', '😀']) {
    const texts = sizes.map((size) => character.repeat(size))
    await insertRows(
      database,
      'labels',
      texts.map((reference) => ({ reference })),
    )
    const received = (await readRows(admin, '/labels')).map(({ reference }) => reference)
    const bySize = (a: string, b: string) => a.length - b.length
    t.ok(received.sort(bySize).join('|') === texts.sort(bySize).join('|'), character)
    await database.run('delete from labels')
  }
})
