/** Schemas of coupons: discounts for orders, limited to a period and to a number of redemptions. */
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

const fields = {
  description: Nullable(Text({ maxLength: 1000, 'x-multiline': true, examples: ['For the first snow'] })),
  kind: OneOf(couponKinds, { description: 'Whether `value` is a percentage or an amount of money' }),
  value: Integer(1, 1_000_000_000_000, {
    description: 'A percentage, at most 100, or an amount in minor units of `currency`',
    examples: [10],
  }),
  currency: Nullable(Currency('An ISO 4217 code if `kind` is "amount", null if it is "percent"')),
  starts_on: Nullable(Day('The first valid day, UTC; null: no start')),
  ends_on: Nullable(Day('The last valid day, UTC; null: no end')),
  max_redemptions: Nullable(Integer(1, 1_000_000_000, { description: 'null: no limit', examples: [500] })),
  status: OneOf(couponStatuses, {
    default: 'draft',
    description: 'draft -> active, archived; active -> paused, archived; paused -> active, archived',
  }),
}

export const Coupon = Type.Object({ id: Id(), code, ...fields, ...common }, { title: 'Coupon' })

export const CouponCreate = Type.Object({ code, ...fields }, { title: 'CouponCreate' })

export const CouponChange = Type.Object(fields, { title: 'CouponChange' })
