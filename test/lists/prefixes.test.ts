/** `name_prefix` selects the rows whose field begins with a literal text, ignoring case as a search does. */
import { Type } from '@sinclair/typebox'
import { pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, folded, text } from '../../drizzle/columns.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, Line, Nothing, Nullable } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { checkRefusals, collectIds, getIds } from '../helpers/replies.ts'
import { createTable, insertRows } from '../helpers/rows.ts'
import { checkValues } from './refusals.ts'

const pages = pgTable('pages', { ...common(), title: text(), body: text(), search: folded() })
const pagesResource = defineResource({
  name: 'pages',
  singular: 'Page',
  plural: 'Pages',
  description: 'Texts with an optional title',
  table: pages,
  verbs: ['list'],
  schemas: {
    read: Type.Object(
      {
        id: Id(),
        title: Nullable(Line(300, 'The title', 'Tea')),
        body: Nullable(Line(9, 'The text', 'Tea')),
        ...commonFields,
      },
      { title: 'Page' },
    ),
    create: Nothing,
    change: Nothing,
  },
  filters: [],
  prefixes: ['title'],
  // A list of the tests.
  unindexed: ['title_prefix', 'created_at'],
  sorts: { created_at: pages.created_at },
  search: ['title', 'body'],
  relations: {},
  access: { list: { admin: true } },
})

const database = await testDatabase(t)
await createTable(database, pages)
const { admin, person } = await testApp(t, {}, { database, resources: [...resources, pagesResource] })

let count = 0
const create = async (name: string, sku = `S-${++count}`, description: string | null = null) => {
  const reply = await admin.post('/products', { sku, name, description, price_amount: 1 })
  if (reply.status !== 201) throw new Error(reply.text)
  return String(reply.body.data.id)
}
const find = async (parameter: string, prefix: string) => {
  const reply = await admin.get(`/products?limit=100&${parameter}=${encodeURIComponent(prefix)}`)
  if (reply.status !== 200) throw new Error(reply.text)
  return getIds(reply)
}

t.test('case is ignored in the prefix and in the row, as in a search', async (t) => {
  const kinds: [string, string[], string[]][] = [
    ['Straße nach Ulm', ['straße', 'STRASSE N', 'Stras', 'STRAẞE'], ['strase', 'nach', 'traße']],
    ['ΟΔΥΣΣΕΥΣ', ['οδυσσευς', 'Οδυσ'], ['δυσ']],
    ['Élodie', ['é', 'E\u0301L'], ['e', 'elodie']],
    ['ISTANBUL', ['ist'], ['ıst']],
    ['ﬁnance', ['F', 'FINANCE', 'fi'], []],
    ['𐐀deseret', ['𐐨DES'], []],
    ['日本語テスト', ['日', '日本語'], ['テスト']],
  ]
  for (const [name, found, missed] of kinds) {
    const id = await create(name)
    for (const prefix of found) t.ok((await find('name_prefix', prefix)).includes(id), `${prefix}: ${name}`)
    for (const prefix of missed)
      t.notOk((await find('name_prefix', prefix)).includes(id), `${prefix}: ${name}`)
  }
})

t.test('the text is literal: %, _, \\, commas and white space stand for themselves', async (t) => {
  const percent = await create('100% cotton')
  const underscore = await create('snake_case')
  const backslash = await create('\\temp')
  const comma = await create('Salt, sea')
  const spaced = await create('New tea')
  const whole = await create('Newton')
  const found: Record<string, string[]> = {
    '100%': [percent],
    '100_': [],
    '%': [],
    snake_: [underscore],
    snake__: [],
    _: [],
    '\\': [backslash],
    '\\t': [backslash],
    '\\\\': [],
    'salt,': [comma],
    'salt, s': [comma],
    'new ': [spaced],
    new: [whole, spaced],
    ' new': [],
    "' or 1=1 --": [],
    $1: [],
  }
  for (const [prefix, ids] of Object.entries(found)) t.same(await find('name_prefix', prefix), ids, prefix)
})

t.test('each prefix is that of its own field alone', async (t) => {
  const id = await create('Kettle', 'TEA.1', 'Zinnia\nQuartz')
  t.same(await find('sku_prefix', 'tea.'), [id])
  t.same(await find('sku_prefix', 'kettle'), [])
  t.same(await find('name_prefix', 'KETTLE'), [id])
  for (const other of ['tea.', 'zinnia', 'quartz']) t.same(await find('name_prefix', other), [], other)
  t.same(getIds(await admin.get('/products?name_prefix=ket&sku_prefix=tea&status=draft')), [id])
  t.same(getIds(await admin.get('/products?name_prefix=ket&sku_prefix=S-')), [])
  await admin.patch(`/products/${id}`, { name: 'Pot' })
  t.same(await find('name_prefix', 'kettle'), [])
  t.same(await find('name_prefix', 'pot'), [id])

  const user = await admin.post('/users', { name: 'Grace Hopper', email: 'Navy@example.com' })
  t.same(getIds(await admin.get('/users?name_prefix=grace%20h')), [user.body.data.id])
  t.same(getIds(await admin.get('/users?email_prefix=NAVY@')), [user.body.data.id])
  t.same(getIds(await admin.get('/users?email_prefix=grace')), [])
  const { client } = await person('member')
  t.same(getIds(await client.get('/products?name_prefix=pot')), [], 'what one may not read is absent')
})

t.test(
  'a field that is null begins with nothing, and the longest prefix is compared as a whole',
  async (t) => {
    const long = 'ﬃ'.repeat(100)
    const rows = [
      { title: null, body: 'Tea' },
      { title: 'Tea', body: null },
      { title: `${long}x`, body: null },
      { title: `${long.slice(1)}y`, body: null },
    ]
    const fold = (text: string | null) => text?.replaceAll('ﬃ', 'ffi').toLowerCase()
    const ids = await insertRows(
      database,
      'pages',
      rows.map((row) => ({ ...row, search: [fold(row.title), fold(row.body)].filter(Boolean).join('\n') })),
    )
    t.same(getIds(await admin.get('/pages?title_prefix=te')), [ids[1]])
    t.same(getIds(await admin.get(`/pages?title_prefix=${encodeURIComponent(long)}`)), [ids[2]])
  },
)

t.test('a prefix has 1 to 100 characters, and no control characters', async (t) => {
  for (const version of ['/v1', '/v2']) {
    await checkValues(
      t,
      admin,
      `${version}/products?name_prefix`,
      'INVALID_FORMAT',
      'a%00 %00 a%0Ab %09 %C2%85x %7F',
    )
    await checkValues(
      t,
      admin,
      `${version}/products?name_prefix`,
      'TOO_LONG',
      `${'a'.repeat(101)} ${'%20'.repeat(101)}`,
    )
  }
  await checkValues(t, admin, '/users?email_prefix', 'INVALID_FORMAT', `e${'%CC%81'.repeat(40)}`)
  await checkRefusals(t, admin, {
    '/products?name_prefix=': ['name_prefix TOO_SHORT'],
    '/products?name_prefix=a&name_prefix=a': ['name_prefix CONFLICTING_PARAMETERS'],
    '/products?description_prefix=a': ['description_prefix UNKNOWN_PARAMETER'],
    '/orders?number_prefix=a': ['number_prefix UNKNOWN_PARAMETER'],
  })
  for (const letter of ['a', '%F0%9F%98%80', 'e%CC%81', '%EF%AC%83', '%25', '%5C']) {
    t.equal((await admin.get(`/products?name_prefix=${letter.repeat(100)}`)).status, 200, letter)
  }
})

t.test('a cursor is bound to the prefix', async (t) => {
  const ids = await insertRows(
    database,
    'products',
    Array.from({ length: 7 }, (_, n) => ({ name: `Walk ${n}` })),
  )
  t.same((await collectIds(admin, '/products?name_prefix=walk&limit=3')).sort(), ids.sort())
  const { cursor } = (await admin.get('/products?name_prefix=walk&limit=3')).body.pagination
  const other = await admin.get(`/products?name_prefix=wal&cursor=${cursor}`)
  t.equal(other.body.error?.code, 'INVALID_CURSOR')
  t.equal((await admin.get('/products?name_prefix=walk&page=2&limit=3')).body.pagination.total, 7)
})
