/** Coupons: discounts for a period and a number of redemptions. */
import { Type } from '@sinclair/typebox'
import { Currency, common, Id, Integer, Nullable, OneOf, Text } from '../../../schemas/types.ts'

const couponKinds = ['percent', 'amount'] as const
const couponStatuses = ['draft', 'active', 'paused', 'archived'] as const

const Day = (description: string) =>
  Text({ format: 'date', pattern: '^(?!0000)', description, examples: ['2026-12-01'] })

const code = Text({
  minLength: 4,
  maxLength: 40,
  pattern: '^[A-Z0-9-]*$',
  description: 'Unique; cannot be changed',
  examples: ['WINTER-10'],
})

const members = {
  description: Nullable(
    Text({
      maxLength: 1000,
      'x-multiline': true,
      description: 'A text of one or more lines',
      examples: ['For the first snow'],
    }),
  ),
  kind: OneOf(couponKinds, {
    title: 'CouponKind',
    description: 'Whether `value` is a percentage or an amount',
  }),
  value: Integer(1, 1_000_000_000_000, {
    description: 'A percentage, at most 100, or minor units of `currency`',
    examples: [10],
  }),
  currency: Nullable(Currency('An ISO 4217 code for an amount, null for a percentage')),
  starts_on: Nullable(Day('The first day, UTC; null: immediately')),
  ends_on: Nullable(Day('The last day, UTC; null: never')),
  max_redemptions: Nullable(Integer(1, 1_000_000_000, { description: 'null: no limit', examples: [500] })),
  status: OneOf(couponStatuses, {
    title: 'CouponStatus',
    default: 'draft',
    description: 'draft -> active, archived; active -> paused, archived; paused -> active, archived',
  }),
}

export const Coupon = Type.Object(
  { id: Id(), code, ...members, ...common },
  { title: 'Coupon', description: 'A discount on orders' },
)

export const CouponCreate = Type.Object(
  { code, ...members },
  { title: 'CouponCreate', examples: [{ code: 'WINTER-10', kind: 'percent', value: 10 }] },
)

export const CouponChange = Type.Object(members, { title: 'CouponChange', examples: [{ status: 'active' }] })
