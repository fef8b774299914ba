/** Defines coupons. A coupon is a percentage or an amount, and an archived one stays archived. */
import { sql } from 'drizzle-orm'
import { defineResource, type ResourceDefinition } from '../../../../plugins/collection/definition.ts'
import type { Mode } from '../../../../plugins/collection/request/body.ts'
import { invalidBody } from '../../../../plugins/errors/index.ts'
import type { Violation } from '../../../../schemas/error.ts'
import { coupons } from '../../drizzle/tables.ts'
import { Coupon, CouponChange, CouponCreate } from '../../schemas/coupons.ts'

type CouponRow = typeof coupons.$inferSelect

const staff = { admin: true, manager: true } as const
const visible = { ...staff, member: [{ status: 'active' }] } as const

/** Checks fields that depend on each other. A field absent from PATCH is unknown; in POST and PUT it is null. */
function check(body: Partial<CouponRow>, mode: Mode): Violation[] {
  const { kind, value = 0, currency = mode === 'update' ? undefined : null, starts_on, ends_on } = body
  const violations: Violation[] = []
  const add = (field: string, message: string, code: Violation['code'] = 'INVALID_VALUE') =>
    violations.push({ field, message, code })
  if (kind === 'percent' && value > 100) add('value', 'must be at most 100 for a percentage', 'OUT_OF_RANGE')
  if (kind === 'percent' && currency) add('currency', 'must be null for a percentage')
  if (kind === 'amount' && currency === null) add('currency', 'is required for an amount', 'REQUIRED')
  if (starts_on && ends_on && ends_on < starts_on) add('ends_on', 'must not be before starts_on')
  return violations
}

export const couponsResource: ResourceDefinition = defineResource({
  name: 'coupons',
  singular: 'Coupon',
  plural: 'Coupons',
  description: 'Discounts for orders',
  table: coupons,
  schemas: { read: Coupon, create: CouponCreate, change: CouponChange },
  immutable: ['code'],
  kept: ['status'],
  filters: ['kind', 'status'],
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
    // PATCH may send only one of two fields that depend on each other, so the changed row is checked, too.
    guard(_current, { next }) {
      const violations = check(next, 'replace')
      if (violations.length > 0) throw invalidBody(violations)
    },
  },
})
