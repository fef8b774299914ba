/** Coupons: unique codes, valid amounts, access by role and status transitions. */
import t from 'tap'
import { testApp } from './helpers/app.ts'

const { admin, person } = await testApp(t)

let made = 0
const coupon = () => ({ code: `WINTER-${++made}`, kind: 'percent', value: 10, ends_on: '2027-02-28' })

t.test('a code is unique and cannot be changed', async (t) => {
  const first = await admin.post('/coupons', coupon())
  const { id, code } = first.body.data
  const again = await admin.post('/coupons', { ...coupon(), code })
  t.equal(again.status, 409)
  t.match(again.body.error.details, [{ field: 'code', code: 'ALREADY_EXISTS' }])
  const renamed = await admin.patch(`/coupons/${id}`, { code: 'SPRING' })
  t.equal(renamed.status, 422)
  t.match(renamed.body.error.details, [{ field: 'code', code: 'READ_ONLY' }])
})

t.test('a percentage needs no currency, an amount does', async (t) => {
  const share = await admin.post('/coupons', { ...coupon(), value: 101, currency: 'EUR' })
  t.match(share.body.error.details, [
    { field: 'value', code: 'OUT_OF_RANGE' },
    { field: 'currency', code: 'INVALID_VALUE' },
  ])
  const sum = await admin.post('/coupons', { ...coupon(), kind: 'amount' })
  t.match(sum.body.error.details, [{ field: 'currency', code: 'REQUIRED' }])
  const { id } = (await admin.post('/coupons', coupon())).body.data
  t.equal((await admin.patch(`/coupons/${id}`, { kind: 'amount' })).status, 422)
  t.equal((await admin.patch(`/coupons/${id}`, { kind: 'amount', currency: 'EUR' })).status, 200)
})

t.test('members read active coupons and change none', async (t) => {
  const { client: member } = await person('member')
  const { id } = (await admin.post('/coupons', coupon())).body.data
  t.equal((await member.get(`/coupons/${id}`)).status, 403)
  t.same((await member.get('/coupons')).body.data, [])
  t.equal((await admin.patch(`/coupons/${id}`, { status: 'active' })).status, 200)
  t.equal((await member.get(`/coupons/${id}`)).status, 200)
  t.equal((await member.patch(`/coupons/${id}`, { value: 90 })).status, 403)
})

t.test('an archived coupon stays archived', async (t) => {
  const { id } = (await admin.post('/coupons', coupon())).body.data
  await admin.patch(`/coupons/${id}`, { status: 'archived' })
  const back = await admin.patch(`/coupons/${id}`, { status: 'active' })
  t.equal(back.status, 409)
  t.match(back.body.error.details, [{ field: 'status', code: 'INVALID_TRANSITION' }])
})
