/** Coupons: a percentage or an amount, never both; archived ones stay archived. */
import { sql } from 'drizzle-orm'
import type { Mode } from '../../../../plugins/collection/actions.ts'
import { defineResource, type ResourceDefinition } from '../../../../plugins/collection/definition.ts'
import { invalidBody } from '../../../../plugins/errors/index.ts'
import type { Violation } from '../../../../schemas/error.ts'
import { coupons } from '../../drizzle/tables/coupons.ts'
import { Coupon, CouponChange, CouponCreate } from '../../schemas/coupons.ts'

type CouponRow = typeof coupons.$inferSelect

const staff = { admin: true, manager: true } as const
const visible = { ...staff, member: [{ status: 'active' }] } as const

const wrong = (field: string, message: string, code: Violation['code'] = 'INVALID_VALUE') => [
  { field, message, code },
]

/** Checks rules between members. In a change an absent member is unknown, otherwise it is null. */
function check(sent: Partial<CouponRow>, mode: Mode): Violation[] {
  const { kind, value = 0, currency = mode === 'update' ? undefined : null, starts_on, ends_on } = sent
  return [
    ...(kind === 'percent' && value > 100 ? wrong('value', 'must be at most 100', 'OUT_OF_RANGE') : []),
    ...(kind === 'percent' && currency ? wrong('currency', 'must be null for a percentage') : []),
    ...(kind === 'amount' && currency === null ? wrong('currency', 'is required', 'REQUIRED') : []),
    ...(starts_on && ends_on && ends_on < starts_on ? wrong('ends_on', 'must not be before starts_on') : []),
  ]
}

export const couponsResource: ResourceDefinition = defineResource({
  name: 'coupons',
  singular: 'Coupon',
  plural: 'Coupons',
  description: 'Discounts on orders',
  table: coupons,
  schemas: { read: Coupon, create: CouponCreate, change: CouponChange },
  immutable: ['code'],
  kept: ['status'],
  filters: ['kind', 'status'],
  ranges: ['ends_on'],
  // There are few coupons: reading all of them is quick.
  unindexed: ['kind', 'ends_on'],
  sorts: {
    code: coupons.code,
    ends_on: {
      column: coupons.ends_on,
      ascending: sql`coalesce(${coupons.ends_on}, 'infinity'::date)`,
      descending: sql`coalesce(${coupons.ends_on}, '-infinity'::date)`,
      nulls: { ascending: 'infinity', descending: '-infinity' },
    },
    created_at: coupons.created_at,
    updated_at: coupons.updated_at,
  },
  search: ['code', 'description'],
  relations: {},
  access: {
    list: visible,
    read: visible,
    create: staff,
    replace: staff,
    update: staff,
    remove: { admin: true },
  },
  transitions: {
    status: {
      draft: ['active', 'archived'],
      active: ['paused', 'archived'],
      paused: ['active', 'archived'],
      archived: [],
    },
  },
  check,
  actions: {
    // The same rules for the changed row.
    guard(_current, { next }) {
      const found = check(next, 'replace')
      if (found.length > 0) throw invalidBody(found)
    },
  },
})
