/** The rules that only coupons have: unique codes, percentages and amounts, visibility, transitions. */
import t from 'tap'
import { testApp } from './helpers/app.ts'

const { admin, person } = await testApp(t)

let couponCount = 0
const createCoupon = () => ({
  code: `WINTER-${++couponCount}`,
  kind: 'percent',
  value: 10,
  ends_on: '2027-02-28',
})

t.test('a code is unique and cannot be changed', async (t) => {
  const first = await admin.post('/coupons', createCoupon())
  const { id, code } = first.body.data
  const duplicate = await admin.post('/coupons', { ...createCoupon(), code })
  t.equal(duplicate.status, 409)
  t.match(duplicate.body.error.details, [{ field: 'code', code: 'ALREADY_EXISTS' }])
  const renamed = await admin.patch(`/coupons/${id}`, { code: 'SPRING' })
  t.equal(renamed.status, 422)
  t.match(renamed.body.error.details, [{ field: 'code', code: 'READ_ONLY' }])
})

t.test('an amount requires a currency, a percentage allows none', async (t) => {
  const percentage = await admin.post('/coupons', { ...createCoupon(), value: 101, currency: 'EUR' })
  t.match(percentage.body.error.details, [
    { field: 'value', code: 'OUT_OF_RANGE' },
    { field: 'currency', code: 'INVALID_VALUE' },
  ])
  const amount = await admin.post('/coupons', { ...createCoupon(), kind: 'amount' })
  t.match(amount.body.error.details, [{ field: 'currency', code: 'REQUIRED' }])
  const { id } = (await admin.post('/coupons', createCoupon())).body.data
  t.equal((await admin.patch(`/coupons/${id}`, { kind: 'amount' })).status, 422)
  t.equal((await admin.patch(`/coupons/${id}`, { kind: 'amount', currency: 'EUR' })).status, 200)
})

t.test('members can read active coupons and change none', async (t) => {
  const { client: member } = await person('member')
  const { id } = (await admin.post('/coupons', createCoupon())).body.data
  t.equal((await member.get(`/coupons/${id}`)).status, 403)
  t.same((await member.get('/coupons')).body.data, [])
  t.equal((await admin.patch(`/coupons/${id}`, { status: 'active' })).status, 200)
  t.equal((await member.get(`/coupons/${id}`)).status, 200)
  t.equal((await member.patch(`/coupons/${id}`, { value: 90 })).status, 403)
})

t.test('an archived coupon stays archived', async (t) => {
  const { id } = (await admin.post('/coupons', createCoupon())).body.data
  await admin.patch(`/coupons/${id}`, { status: 'archived' })
  const reactivated = await admin.patch(`/coupons/${id}`, { status: 'active' })
  t.equal(reactivated.status, 409)
  t.match(reactivated.body.error.details, [{ field: 'status', code: 'INVALID_TRANSITION' }])
})
