/**
 * The code of docs/adding-a-resource.md is what its command writes and what stands in test/coupons, and the API serves
 * that resource as its definition says.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { renderGuide } from '../../scripts/new/guide.ts'
import { testApp } from '../coupons/test/helpers/app.ts'
import { createClient, type Json } from '../helpers/app.ts'

/** The files of which the guide shows parts. */
const EXCERPTED = /^test\/(?:coupons\/|collection\/own-operations)/

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('the document shows the code unchanged', async (t) => {
  const guide = read('docs/adding-a-resource.md')
  const blocks = [...guide.matchAll(/<!-- (\S+) -->\n```ts\n([\s\S]*?)^```$/gm)]
  const excerpts = blocks.filter(([, path = '']) => EXCERPTED.test(path))
  t.equal(blocks.length - excerpts.length, 3, 'a block for the schema, the table and the definition')
  t.equal(renderGuide(guide), guide, 'the command writes other code; npm run new:guide renders it')
  t.equal(excerpts.length, 3)
  for (const [, path = '', code = ''] of excerpts) t.ok(read(path).includes(code), path)
})

t.test('coupons are served as their definition says', async (t) => {
  const { admin, anybody, base, person } = await testApp(t)
  const { client: manager } = await person('manager')
  const { client: member } = await person('member')
  const { client: reader } = await person('admin', ['coupons:read'])

  const codes = (reply: { body: Json }) =>
    Object.fromEntries(
      (reply.body.error.details ?? reply.body.error.errors).map(({ field, code }: Json) => [field, code]),
    )
  const share = {
    code: 'SHARE-10',
    kind: 'percent',
    value: 10,
    starts_on: '2026-12-01',
    ends_on: '2027-02-28',
  }
  const sum = { code: 'SUM-500', kind: 'amount', value: 500, currency: 'EUR', description: '  Für Straße 7 ' }
  const created = await manager.post('/api/v1/coupons', share)
  const { id } = created.body.data
  const address = `/api/v1/coupons/${id}`

  t.test('create', async (t) => {
    t.equal(created.status, 201)
    t.equal(created.headers.get('location'), address)
    const { created_at, updated_at, ...members } = created.body.data
    const defaults = { description: null, currency: null, max_redemptions: null, status: 'draft' }
    t.same(members, { id, ...share, ...defaults })
    const second = await admin.post('/v2/coupons', { data: { type: 'coupons', attributes: sum } })
    t.equal(second.status, 201)
    t.match(second.body.data, {
      type: 'coupons',
      attributes: { code: 'SUM-500', description: 'Für Straße 7' },
    })
  })

  t.test('validation', async (t) => {
    const bad = { code: 'NO', kind: 'gift', value: '5', ends_on: '2027-02-29', id, colour: 'red' }
    const first = await admin.post('/coupons', bad)
    t.equal(first.status, 422)
    t.same(codes(first), {
      id: 'READ_ONLY',
      colour: 'UNKNOWN_FIELD',
      code: 'TOO_SHORT',
      kind: 'INVALID_VALUE',
      value: 'INVALID_TYPE',
      ends_on: 'INVALID_FORMAT',
    })
    t.same(codes(await admin.post('/coupons', {})), { code: 'REQUIRED', kind: 'REQUIRED', value: 'REQUIRED' })
    const typed = { data: { type: 'coupons', attributes: { ...sum, code: 'SUM-1', value: 0 } } }
    t.same(codes(await admin.post('/v2/coupons', typed)), { 'data.attributes.value': 'OUT_OF_RANGE' })
    t.same(codes(await admin.post('/coupons', { ...share, code: 'OLD-1', starts_on: '0000-01-01' })), {
      starts_on: 'INVALID_FORMAT',
    })
    t.same(codes(await admin.patch(address, { starts_on: '2027-03-01' })), { ends_on: 'INVALID_VALUE' })
    const above = { data: { type: 'coupons', attributes: { value: 101 } } }
    t.same(codes(await admin.patch(`/v2/coupons/${id}`, above)), { 'data.attributes.value': 'OUT_OF_RANGE' })
    t.same(codes(await admin.post('/coupons', share)), { code: 'ALREADY_EXISTS' })
  })

  t.test('read', async (t) => {
    const read = await admin.get(`/v2/coupons/${id}`)
    t.match(read.body.data, { type: 'coupons', attributes: { value: 10 } })
    t.same(Object.keys((await admin.get(`${address}?fields=code`)).body.data), ['id', 'code'])
    t.same(codes(await admin.get(`${address}?fields=color&include=user`)), {
      fields: 'INVALID_VALUE',
      include: 'UNKNOWN_PARAMETER',
    })
    t.equal((await admin.get('/coupons/SHARE-10')).status, 404)
  })

  t.test('update and replace', async (t) => {
    const moved = await admin.patch(address, { status: 'active', max_redemptions: 500 })
    t.match(moved.body.data, { status: 'active', max_redemptions: 500, ends_on: '2027-02-28' })
    const same = await admin.patch(address, { starts_on: '2026-12-01' })
    t.equal(same.headers.get('etag'), moved.headers.get('etag'), 'no change, no new revision')
    t.same(codes(await admin.patch(address, { code: 'SHARE-10' })), { code: 'READ_ONLY' })
    t.same(codes(await admin.patch(address, { value: null })), { value: 'INVALID_TYPE' })

    const put = await admin.put(address, { ...moved.body.data, ends_on: undefined, status: undefined })
    t.equal(put.status, 200)
    t.match(put.body.data, { ends_on: null, status: 'active', code: 'SHARE-10' })
    t.same(codes(await admin.put(address, { ...moved.body.data, code: 'SHARE-11' })), { code: 'READ_ONLY' })
    const back = await admin.patch(address, { status: 'draft' })
    t.equal(back.status, 409)
    t.same(codes(back), { status: 'INVALID_TRANSITION' })
  })

  t.test('lists', async (t) => {
    for (const n of [1, 2, 3])
      await admin.post('/coupons', { ...share, code: `MORE-${n}`, ends_on: `2027-0${n}-01` })
    const walk = async (query: string) => {
      const found: string[] = []
      let cursor = ''
      do {
        const { status, body } = await admin.get(`/coupons?${query}&limit=2&cursor=${cursor}`)
        t.equal(status, 200)
        found.push(...body.data.map(({ code }: Json) => code))
        cursor = body.pagination.cursor ?? ''
      } while (cursor !== '')
      return found
    }
    t.same(await walk('sort=code'), ['MORE-1', 'MORE-2', 'MORE-3', 'SHARE-10', 'SUM-500'])
    // Two have no end: they come last in both directions.
    t.same((await walk('sort=ends_on')).slice(0, 3), ['MORE-1', 'MORE-2', 'MORE-3'])
    t.same((await walk('sort=-ends_on')).slice(0, 3), ['MORE-3', 'MORE-2', 'MORE-1'])
    t.equal(new Set(await walk('sort=-ends_on,code')).size, 5)
    for (const [query, ...found] of [
      ['kind=amount', 'SUM-500'],
      ['status=active', 'SHARE-10'],
      ['kind=percent,amount&status=draft&sort=code', 'MORE-1', 'MORE-2', 'MORE-3', 'SUM-500'],
      // What has no end is within no limit of it.
      ['ends_on_min=2027-02-01&ends_on_max=2027-02-28&sort=ends_on', 'MORE-2'],
      ['ends_on_min=0001-01-01&sort=code', 'MORE-1', 'MORE-2', 'MORE-3'],
      ['search=STRASSE', 'SUM-500'],
      ['created_before=2020-01-01'],
    ] as const) {
      t.same(await walk(query), found, query)
    }
    const [format, unknown] = ['INVALID_FORMAT', 'UNKNOWN_PARAMETER']
    for (const [query, expected] of [
      ['ends_on_min=2027-02-29&ends_on_max=0000-01-01', { ends_on_min: format, ends_on_max: format }],
      ['ends_on_min=2027-02-02&ends_on_max=2027-02-01', { ends_on_min: 'CONFLICTING_PARAMETERS' }],
      ['ends_on_min=2027-02-02T00:00:00Z', { ends_on_min: format }],
      ['sort=value&kind=gift&user_id=me', { sort: 'INVALID_VALUE', kind: 'INVALID_VALUE', user_id: unknown }],
    ] as const) {
      t.same(codes(await admin.get(`/coupons?${query}`)), expected, query)
    }
  })

  t.test('access', async (t) => {
    t.equal((await anybody.get(address)).status, 401)
    t.equal((await member.get(address)).status, 200, 'an active one')
    t.same(
      (await member.get('/coupons')).body.data.map(({ code }: Json) => code),
      ['SHARE-10'],
    )
    t.equal((await member.get('/coupons?page=1')).body.pagination.total, 1)
    t.equal((await member.post('/coupons', share)).status, 403)
    t.equal((await manager.delete(address)).status, 403)
    t.equal((await reader.get(address)).status, 200)
    const refused = await reader.patch(address, { value: 1 })
    t.match([refused.status, refused.body.error.message], [403, /coupons:write/])
  })

  t.test('an API key can be created with a scope of coupons', async (t) => {
    const { bearer } = await person('admin')
    const mint = (scope: string) => bearer.post('/api-keys', { name: 'Coupons', scopes: [scope] })
    const minted = await mint('coupons:read')
    t.equal(minted.status, 201)
    const client = createClient(base, { 'x-api-key': minted.body.data.key })
    t.equal((await client.get(address)).status, 200)
    t.equal((await mint('coupons:write')).status, 201)
  })

  t.test('OpenAPI', async (t) => {
    for (const version of [1, 2]) {
      const { paths, components, security: common } = (await anybody.get(`/openapi/v${version}.json`)).body
      const members = ['coupons', 'coupons/{id}'].map((path) => paths[`/api/v${version}/${path}`])
      const operations: Json[] = members.flatMap(({ parameters: _, ...methods }) => Object.values(methods))
      t.equal(
        operations
          .map(({ operationId }) => operationId)
          .sort()
          .join(),
        'createCoupon,deleteCoupon,getCoupon,listCoupons,replaceCoupon,updateCoupon',
      )
      t.ok(operations.every(({ tags, security = common }) => tags.includes('coupons') && security.length > 0))
      t.ok(components.schemas.CouponStatus.enum.length > 0)
      const { value } = components.examples['CouponCreate.flat']
      const example = await admin.post(`/api/v${version}/coupons`, { ...value, code: `EXAMPLE-${version}` })
      t.equal(example.status, 201)
    }
  })
})
