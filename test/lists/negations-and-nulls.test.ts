/** `status_not` selects the rows with none of some values, `note_null` those with or without a value. */
import { Type } from '@sinclair/typebox'
import { boolean, index, pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, integer, text } from '../../drizzle/columns.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, Nothing, Nullable, OneOf, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { checkRefusals, collectIds, getIds, getViolations } from '../helpers/replies.ts'
import { createTable, insertRows } from '../helpers/rows.ts'
import { checkValues } from './refusals.ts'

const parcels = pgTable(
  'parcels',
  {
    ...common(),
    city: text().notNull(),
    size: text().$type<'small' | 'large'>(),
    weight: integer(),
    is_open: boolean().notNull(),
  },
  (t) => [
    index('parcels_created_at').on(t.created_at, t.id),
    index('parcels_city').on(t.city, t.created_at, t.id),
    index('parcels_size').on(t.size, t.created_at, t.id),
    index('parcels_weight').on(t.weight, t.created_at, t.id),
    index('parcels_is_open').on(t.is_open, t.created_at, t.id),
  ],
)

const parcelsResource = defineResource({
  name: 'parcels',
  singular: 'Parcel',
  plural: 'Parcels',
  description: 'Goods on their way',
  table: parcels,
  verbs: ['list'],
  schemas: {
    read: Type.Object(
      {
        id: Id(),
        city: Text({ maxLength: 20 }),
        size: Nullable(OneOf(['small', 'large'])),
        weight: Nullable(Type.Integer()),
        is_open: Type.Boolean(),
        ...commonFields,
      },
      { title: 'Parcel' },
    ),
    create: Nothing,
    change: Nothing,
  },
  filters: ['city', 'size', 'weight', 'is_open'],
  negations: ['city', 'size', 'weight', 'is_open'],
  nullChecks: ['size', 'weight'],
  // Few parcels are listed without them.
  unindexed: ['city_not', 'size_not', 'weight_not'],
  sorts: { created_at: parcels.created_at },
  search: [],
  relations: {},
  access: { list: { admin: true } },
})

const database = await testDatabase(t)
await createTable(database, parcels)
const { admin, person } = await testApp(t, {}, { database, resources: [...resources, parcelsResource] })
const ada = await person('member')

const states = ['draft', 'active', 'archived']
const products = await insertRows(
  database,
  'products',
  states.map((status, n) => ({ status, description: n === 1 ? 'Loose leaf' : null })),
)
const cities = await insertRows(database, 'parcels', [
  { city: 'Bonn', size: 'small', weight: 1, is_open: true },
  { city: 'Ulm, Süd', size: 'large', weight: 2, is_open: false },
  { city: 'Köln', size: null, weight: null, is_open: false },
])

const findIn = (ids: readonly string[], path: string) => async (query: string) => {
  const reply = await admin.get(`${path}?sort=created_at&limit=100&${query}`)
  if (reply.status === 400) return getViolations(reply)
  return getIds(reply)
    .map((id) => ids.indexOf(id))
    .sort()
}
const findProducts = findIn(products, '/products')
const findParcels = findIn(cities, '/parcels')

t.test('status_not selects the rows with none of the values', async (t) => {
  t.same(await findProducts('status_not=draft'), [1, 2])
  t.same(await findProducts('status_not=archived,draft,draft'), [1])
  t.same(await findProducts('status_not=archived,draft,active'), [], 'of all values')
  t.same(await findProducts('status=draft,active&status_not=draft'), [1], 'with the filter')
  t.same(await findProducts('status=draft&status_not=draft'), [])
  t.same(await findProducts('status_not=active&currency=USD&search=sku'), [0, 2])
  const [order = ''] = await insertRows(database, 'orders', [{ user_id: ada.id, status: 'paid' }])
  t.same(getIds(await admin.get('/orders?status_not=pending')), [order])
  t.same(getIds(await ada.client.get('/orders?status_not=paid')), [])
  t.same(await findProducts('status_not=active&page=1'), [0, 2])
  t.equal((await admin.get('/products?status_not=active&page=1')).body.pagination.total, 2)
  t.same(getIds(await ada.client.get('/products?status_not=active')), [], 'what one may not read is absent')
  t.same(getIds(await ada.client.get('/products?status_not=draft')), [products[1]])
})

t.test('the negation of a text, of a number, of a boolean and of a nullable enum', async (t) => {
  t.same(await findParcels('city_not=Bonn'), [1, 2])
  t.same(await findParcels('city_not=Bonn,K%C3%B6ln'), [1])
  t.same(await findParcels('city_not=Ko%CC%88ln'), [0, 1], 'normalized as the field')
  t.same(await findParcels('city_not=Paris'), [0, 1, 2])
  t.same(await findParcels('is_open_not=true'), [1, 2])
  t.same(await findParcels('is_open_not=true,false'), [])
  t.same(await findParcels('weight_not=1'), [1, 2], 'null is none of the values')
  t.same(await findParcels('weight_not=1&weight_null=false'), [1])
  t.same(await findParcels('size_not=small'), [1, 2])
  t.same(await findParcels('size_not=small,large'), [2])
  t.same(await findParcels('weight=1,2&weight_not=2'), [0])
})

t.test('a null check selects the rows without a value, or the others', async (t) => {
  t.same(await findProducts('description_null=true'), [0, 2])
  t.same(await findProducts('description_null=false'), [1])
  t.same(await findParcels('size_null=true&weight_null=true'), [2])
  t.same(await findParcels('size_null=true&size=small'), [])
  const parts = { name: 'Ada', line1: 'Hafengasse 1', line2: null, city: 'Ulm', region: null }
  const address = JSON.stringify({ ...parts, postal_code: '89073', country: 'DE' })
  const [order = ''] = await insertRows(database, 'orders', [
    { user_id: ada.id, shipping_address: address, note: 'Ring' },
  ])
  t.same(getIds(await admin.get('/orders?shipping_address_null=false')), [order], 'an object')
  t.notOk(getIds(await admin.get('/orders?note_null=true&limit=100')).includes(order))
  // Null is stored as NULL also by a request.
  const path = `/user-profiles/${(await ada.client.post('/user-profiles', { bio: null })).body.data.id}`
  t.equal(getIds(await admin.get('/user-profiles?bio_null=true')).length, 1)
  await ada.client.patch(path, { bio: 'Some' })
  t.equal(getIds(await admin.get('/user-profiles?bio_null=true')).length, 0)
})

t.test(
  'a value that the field cannot have, an empty one and a repeated parameter are rejected',
  async (t) => {
    for (const version of ['/v1', '/v2']) {
      await checkValues(
        t,
        admin,
        `${version}/products?status_not`,
        'INVALID_VALUE',
        'no ACTIVE active,no active,',
      )
      await checkValues(t, admin, `${version}/parcels?weight_not`, 'INVALID_TYPE', '1.5 x null 1,')
      await checkValues(
        t,
        admin,
        `${version}/products?description_null`,
        'INVALID_TYPE',
        '1 TRUE null true,false %00',
      )
    }
    await checkValues(t, admin, '/parcels?city_not', 'INVALID_FORMAT', 'a%00 %0Aa%07')
    await checkRefusals(t, admin, {
      '/products?status_not=': ['status_not INVALID_VALUE'],
      '/products?description_null=': ['description_null INVALID_TYPE'],
      '/parcels?city_not=': ['city_not TOO_SHORT'],
      '/products?status_not=draft&status_not=draft': ['status_not CONFLICTING_PARAMETERS'],
      '/products?description_null=true&description_null=true': ['description_null CONFLICTING_PARAMETERS'],
      '/products?sku_not=a': ['sku_not UNKNOWN_PARAMETER'],
      '/products?sku_null=true': ['sku_null UNKNOWN_PARAMETER'],
      '/events?type_not=products.created': ['type_not UNKNOWN_PARAMETER'],
      '/orders?number_null=false&status_null=true': [
        'number_null UNKNOWN_PARAMETER',
        'status_null UNKNOWN_PARAMETER',
      ],
    })
    const many = (count: number) => Array.from({ length: count }, (_, n) => `C${n}`).join()
    t.equal((await admin.get(`/parcels?city_not=${many(50)}`)).status, 200)
    t.same(getViolations(await admin.get(`/parcels?city_not=${many(51)}`)), ['city_not TOO_LONG'])
  },
)

t.test('a cursor is bound to negations and null checks', async (t) => {
  await insertRows(
    database,
    'products',
    Array.from({ length: 12 }, (_, n) => ({ status: states[n % 3] ?? '', description: n % 2 ? 'x' : null })),
  )
  const query = 'status_not=draft&description_null=true'
  const all = getIds(await admin.get(`/products?${query}&limit=100`))
  t.equal(all.length, 5)
  t.same(await collectIds(admin, `/products?${query}&limit=2`), all)
  const { cursor } = (await admin.get(`/products?${query}&limit=2`)).body.pagination
  for (const other of [
    'status_not=draft',
    'description_null=true',
    'status_not=draft&description_null=false',
    'status_not=active&description_null=true',
  ]) {
    const reply = await admin.get(`/products?${other}&cursor=${cursor}`)
    t.equal(reply.body.error?.code, 'INVALID_CURSOR', other)
  }
  const positive = `/products?status=active,archived&description_null=true&cursor=${cursor}`
  t.equal((await admin.get(positive)).status, 200, 'the same list')
})
