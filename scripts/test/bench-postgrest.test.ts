/** The requests of PostgREST in bench/compose.yaml, which no test sends, ask for what the checks compare. */
import t from 'tap'
import { postgrest } from '../../bench/targets/postgrest.ts'
import { newProduct } from '../../bench/targets/version1-api.ts'

const ID = '01950000-0000-7000-8000-000000000001'
const { api } = postgrest

t.test('rows become resources of version 1', async (t) => {
  const row = { id: ID, created_at: '2026-01-01T10:00:00.123456+00:00', stock: 5 }
  const order = { id: ID, items: [{ name: 'Tea' }], user: row }
  const expected = { ...row, created_at: '2026-01-01T10:00:00.123Z' }
  t.same(api.resources(JSON.stringify(row)), [expected])
  t.same(api.resources(JSON.stringify([order])), [{ ...order, user: expected }])
})

t.test(
  'a creation sends what the service derives, and a cursor is a condition on both columns',
  async (t) => {
    const { body = '', headers } = api.createProduct()
    const { id, search, ...fields } = JSON.parse(body.replaceAll('#########', '123456789'))
    t.equal(id, '01950000-0000-7000-8000-000123456789')
    t.same(fields, { ...newProduct, sku: 'BENCH-123456789' })
    t.equal(search, `bench-123456789\n${newProduct.name}\n${newProduct.description}`.toLowerCase())
    t.match(headers, { Prefer: 'return=representation' })
    const url = new URL(
      api.usersAfter({ id: ID, created_at: '2026-01-01 10:00:00.5+00' }).path,
      'http://localhost',
    )
    t.equal(
      url.searchParams.get('or'),
      `(created_at.lt."2026-01-01 10:00:00.5+00",and(created_at.eq."2026-01-01 10:00:00.5+00",id.lt.${ID}))`,
    )
  },
)
