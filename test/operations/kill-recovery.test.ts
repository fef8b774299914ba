/** Acknowledged writes survive kill -9 and SIGTERM; `npm run soak` repeats this forty times. */
import { test } from 'tap'
import { createServerSettings } from '../helpers/process.ts'
import { killRounds } from '../soak/kill.ts'
import { createWriteLog, findLostWrites } from '../soak/write-log.ts'

const OPTIONS = { rounds: 1, clients: 4, between: [200, 500] as [number, number] }

test('a server killed during writes restarts with every acknowledged write', async (t) => {
  const report = await killRounds(t, { settings: await createServerSettings(t), ...OPTIONS })
  t.strictSame(report.lost, [])
  t.ok(report.acknowledged >= 40, `${report.acknowledged} writes acknowledged`)
  t.comment(`back after ${report.restarts.map(Math.round)} ms`)
})

test('a server stopped during writes completes them and loses none', async (t) => {
  const settings = await createServerSettings(t)
  const report = await killRounds(t, { settings, ...OPTIONS, signal: 'SIGTERM' })
  t.strictSame(report.lost, [])
  t.equal(report.refused, 0, 'no reply announced the stop')
  t.ok(report.acknowledged >= 40, `${report.acknowledged} writes acknowledged`)
  t.strictSame(report.ends, [{ code: 0, signal: null }])
})

test('a lost write is detected by the check', async (t) => {
  const log = createWriteLog()
  log.products.push(
    { id: 'kept', price: 1, isDeleted: false },
    { id: 'lost', price: 1, isDeleted: false },
    { id: 'old', price: 2, isDeleted: false },
    { id: 'back', price: 1, isDeleted: true },
    { id: 'either', price: 1, isDeleted: false, pending: { price: 2 } },
    { id: 'perhaps', price: 1, isDeleted: false, pending: 'deletion' },
  )
  log.orders.set('order', 1)
  const products = ['kept', 'old', 'back', 'either'].map((id) => ({
    id,
    price_amount: id === 'either' ? 2 : 1,
  }))
  t.strictSame(findLostWrites(log, { products, orders: [] }), [
    'product lost is lost',
    'product old costs 1, not 2',
    'product back was deleted and still exists',
    'order order is lost',
  ])
})
