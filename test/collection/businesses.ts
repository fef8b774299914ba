/** A shop with suppliers and a clinic, declared by paths over relations and fields by role alone. */
import { type TProperties, Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { index, type PgTable, pgTable, uuid } from 'drizzle-orm/pg-core'
import type { Test } from 'tap'
import { common, folded, integer, text, trigrams } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { CALLER } from '../../plugins/access/rules.ts'
import { defineRules } from '../../plugins/collection/checked-rules.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import type { ResourceTable } from '../../plugins/collection/resource-table.ts'
import { common as commonFields, Id, Integer, Line, Nullable, OneOf } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { createTable } from '../helpers/rows.ts'

const key = (to: ResourceTable) =>
  uuid()
    .notNull()
    .references(() => to.id, { onDelete: 'cascade' })
const userKey = () => key(users)

// Drizzle finds the names of columns by those of their tables: no other test in the process has these.
const suppliers = pgTable('shop_suppliers', { ...common(), name: text().notNull() })

const agents = pgTable(
  'shop_agents',
  { ...common(), supplier_id: key(suppliers), user_id: userKey() },
  (t) => [index('shop_agents_supplier_id').on(t.supplier_id), index('shop_agents_user_id').on(t.user_id)],
)

const goods = pgTable(
  'shop_goods',
  {
    ...common(),
    supplier_id: key(suppliers),
    name: text().notNull(),
    status: text().$type<'draft' | 'active'>().notNull(),
    cost: integer().notNull(),
    search: folded(),
  },
  (t) => [
    index('shop_goods_created_at').on(t.created_at, t.id),
    index('shop_goods_supplier_id').on(t.supplier_id, t.created_at, t.id),
    index('shop_goods_name').on(t.name, t.id),
    trigrams('shop_goods_search', sql`${t.search}`),
  ],
)

const purchases = pgTable('shop_purchases', { ...common(), user_id: userKey() }, (t) => [
  index('shop_purchases_user_id').on(t.user_id, t.created_at, t.id),
  index('shop_purchases_created_at').on(t.created_at, t.id),
])

const items = pgTable(
  'shop_items',
  { ...common(), purchase_id: key(purchases), good_id: key(goods), quantity: integer().notNull() },
  (t) => [
    index('shop_items_purchase_id').on(t.purchase_id, t.created_at, t.id),
    index('shop_items_good_id').on(t.good_id, t.created_at, t.id),
    index('shop_items_quantity').on(t.quantity, t.id),
  ],
)

const clinics = pgTable('clinic_clinics', { ...common(), name: text().notNull() })

const staff = pgTable('clinic_staff', { ...common(), clinic_id: key(clinics), user_id: userKey() }, (t) => [
  index('clinic_staff_clinic_id').on(t.clinic_id),
  index('clinic_staff_user_id').on(t.user_id),
])

const patients = pgTable(
  'clinic_patients',
  {
    ...common(),
    user_id: userKey(),
    name: text().notNull(),
    insurance: text(),
    search: folded(),
  },
  (t) => [
    index('clinic_patients_created_at').on(t.created_at, t.id),
    index('clinic_patients_user_id').on(t.user_id, t.created_at, t.id),
    index('clinic_patients_name').on(t.name, t.id),
    trigrams('clinic_patients_search', sql`${t.search}`),
  ],
)

const appointments = pgTable(
  'clinic_appointments',
  { ...common(), patient_id: key(patients), practitioner_id: userKey() },
  (t) => [
    index('clinic_appointments_patient_id').on(t.patient_id, t.created_at, t.id),
    index('clinic_appointments_practitioner_id').on(t.practitioner_id, t.created_at, t.id),
  ],
)

const invoices = pgTable(
  'clinic_invoices',
  { ...common(), clinic_id: key(clinics), patient_id: key(patients), amount: integer().notNull() },
  (t) => [
    index('clinic_invoices_clinic_id').on(t.clinic_id, t.created_at, t.id),
    index('clinic_invoices_patient_id').on(t.patient_id, t.created_at, t.id),
    index('clinic_invoices_amount').on(t.amount, t.id),
  ],
)

const one = { foreign: 'id', many: false } as const
const relations = {
  agents: { supplier: { to: suppliers, local: 'supplier_id', ...one } },
  goods: {
    agents: { to: agents, local: 'supplier_id', foreign: 'supplier_id', many: true },
  },
  purchases: {},
  items: {
    purchase: { to: purchases, local: 'purchase_id', ...one, inverse: 'items' },
    good: { to: goods, local: 'good_id', ...one, inverse: 'items', filters: ['status'] },
  },
  clinics: { staff: { to: staff, local: 'id', foreign: 'clinic_id', many: true } },
  appointments: {
    patient: { to: patients, local: 'patient_id', ...one, inverse: 'appointments' },
  },
  invoices: {
    clinic: { to: clinics, local: 'clinic_id', ...one },
    patient: { to: patients, local: 'patient_id', ...one, inverse: 'invoices' },
  },
} as const
type Relations = typeof relations

declare module '../../plugins/collection/known-relations.ts' {
  interface KnownRelations {
    shop_goods: { table: typeof goods; relations: Relations['goods'] }
    shop_items: { table: typeof items; relations: Relations['items'] }
    clinic_clinics: { table: typeof clinics; relations: Relations['clinics'] }
    clinic_appointments: { table: typeof appointments; relations: Relations['appointments'] }
    clinic_invoices: { table: typeof invoices; relations: Relations['invoices'] }
  }
}

const toSchemas = <F extends TProperties>(title: string, fields: F) => ({
  read: Type.Object({ id: Id(), ...fields, ...commonFields }, { title }),
  create: Type.Object(fields, { title: `${title}Create` }),
  change: Type.Object(fields, { title: `${title}Change` }),
})

const lists = { filters: [], sorts: {}, search: [] } as const
const byAdmin = { admin: true } as const
const adminAccess = { list: byAdmin, read: byAdmin, create: byAdmin, remove: byAdmin } as const
const name = Line(50, 'The name', 'Tea')

const suppliersResource = defineResource({
  ...{ ...lists, name: 'suppliers', singular: 'Supplier', plural: 'Suppliers', description: 'Suppliers' },
  table: suppliers,
  schemas: toSchemas('Supplier', { name }),
  relations: {},
  access: adminAccess,
})

const agentsResource = defineResource({
  ...{ ...lists, name: 'agents', singular: 'Agent', plural: 'Agents', description: 'Members of suppliers' },
  table: agents,
  schemas: toSchemas('Agent', { supplier_id: Id('The supplier'), user_id: Id('The user') }),
  relations: relations.agents,
  access: adminAccess,
})

const ofSupplier = [{ 'agents.user_id': CALLER }] as const
const visibleGoods = defineRules(goods, {
  admin: true,
  manager: true,
  member: [{ status: 'active' }, ...ofSupplier],
})
const writtenGoods = defineRules(goods, { admin: true, member: ofSupplier })

const goodsResource = defineResource({
  ...{ name: 'goods', singular: 'Good', plural: 'Goods', description: 'What suppliers sell' },
  table: goods,
  schemas: toSchemas('Good', {
    supplier_id: Id('The supplier'),
    name,
    status: OneOf(['draft', 'active'], { title: 'GoodStatus', default: 'draft', description: 'The state' }),
    cost: Integer(0, 1_000_000, { default: 0, description: 'What the shop pays', examples: [1] }),
  }),
  uncheckedReferences: ['supplier_id'],
  filters: ['supplier_id', 'name', 'status', 'cost'],
  sorts: { created_at: goods.created_at, name: goods.name, cost: goods.cost },
  unindexed: ['status', 'cost'],
  search: ['name'],
  relations: relations.goods,
  access: { list: visibleGoods, read: visibleGoods, create: writtenGoods, update: writtenGoods },
  fields: { cost: { read: ['admin', 'manager'], write: ['admin'] } },
})

const visiblePurchases = defineRules(purchases, {
  admin: true,
  manager: true,
  member: [{ user_id: CALLER }, { 'items.good.agents.user_id': CALLER }],
})

const purchasesResource = defineResource({
  ...{ name: 'purchases', singular: 'Purchase', plural: 'Purchases', description: 'Orders of the shop' },
  table: purchases,
  schemas: toSchemas('Purchase', { user_id: Id('The customer') }),
  uncheckedReferences: ['user_id'],
  filters: ['user_id'],
  sorts: { created_at: purchases.created_at },
  search: [],
  relations: relations.purchases,
  access: { list: visiblePurchases, read: visiblePurchases, create: { member: [{ user_id: CALLER }] } },
})

const visibleItems = defineRules(items, {
  admin: true,
  manager: true,
  member: [{ 'purchase.user_id': CALLER }, { 'good.agents.user_id': CALLER }],
})

const itemsResource = defineResource({
  ...{ name: 'items', singular: 'Item', plural: 'Items', description: 'Goods of an order' },
  table: items,
  schemas: toSchemas('Item', {
    purchase_id: Id('The order'),
    good_id: Id('The good'),
    quantity: Integer(1, 100, { default: 1, description: 'How many', examples: [1] }),
  }),
  filters: ['purchase_id', 'good_id'],
  sorts: { quantity: items.quantity },
  search: [],
  relations: relations.items,
  access: {
    list: visibleItems,
    read: visibleItems,
    create: { member: [{ 'purchase.user_id': CALLER }] },
    update: { admin: true, member: [{ 'purchase.user_id': CALLER }] },
  },
})

const clinicsResource = defineResource({
  ...{ ...lists, name: 'clinics', singular: 'Clinic', plural: 'Clinics', description: 'Clinics' },
  table: clinics,
  schemas: toSchemas('Clinic', { name }),
  relations: relations.clinics,
  access: adminAccess,
})

const staffResource = defineResource({
  ...{ ...lists, name: 'staff', singular: 'StaffMember', plural: 'Staff', description: 'Who works where' },
  table: staff,
  schemas: toSchemas('StaffMember', { clinic_id: Id('The clinic'), user_id: Id('The user') }),
  relations: {},
  access: adminAccess,
})

const ofPractitioner = [{ 'appointments.practitioner_id': CALLER }] as const

const patientsResource = defineResource({
  ...{ name: 'patients', singular: 'Patient', plural: 'Patients', description: 'Patients' },
  table: patients,
  schemas: toSchemas('Patient', {
    user_id: Id('The account'),
    name,
    insurance: Nullable(Line(50, 'The number of the insurance', 'X-1')),
  }),
  uncheckedReferences: ['user_id'],
  filters: ['name', 'insurance'],
  sorts: { created_at: patients.created_at, name: patients.name },
  unindexed: ['insurance'],
  search: ['name'],
  relations: {},
  access: {
    list: { admin: true, member: [{ user_id: CALLER }, ...ofPractitioner] },
    read: { admin: true, member: [{ user_id: CALLER }, ...ofPractitioner] },
    create: { admin: true },
    update: { admin: true, member: ofPractitioner },
  },
  fields: { insurance: { read: ['admin', 'manager'] } },
})

const appointmentsResource = defineResource({
  ...{ name: 'appointments', singular: 'Appointment', plural: 'Appointments', description: 'Appointments' },
  table: appointments,
  schemas: toSchemas('Appointment', { patient_id: Id('The patient'), practitioner_id: Id('The user') }),
  uncheckedReferences: ['practitioner_id', 'patient_id'],
  filters: ['patient_id'],
  sorts: {},
  search: [],
  relations: relations.appointments,
  access: {
    list: { admin: true, member: [{ practitioner_id: CALLER }, { 'patient.user_id': CALLER }] },
    read: { admin: true, member: [{ practitioner_id: CALLER }, { 'patient.user_id': CALLER }] },
    create: { admin: true },
    remove: { admin: true },
  },
})

const visibleInvoices = defineRules(invoices, {
  admin: true,
  manager: [{ 'clinic.staff.user_id': CALLER }],
  member: [{ 'patient.user_id': CALLER }, { 'clinic.staff.user_id': CALLER }],
})
const writtenInvoices = defineRules(invoices, {
  admin: true,
  manager: [{ 'clinic.staff.user_id': CALLER }],
  member: [{ 'clinic.staff.user_id': CALLER }],
})

const invoicesResource = defineResource({
  ...{ name: 'invoices', singular: 'Invoice', plural: 'Invoices', description: 'Invoices of patients' },
  table: invoices,
  schemas: toSchemas('Invoice', {
    clinic_id: Id('The clinic'),
    patient_id: Id('The patient'),
    amount: Integer(0, 1_000_000, { description: 'The amount', examples: [100] }),
  }),
  uncheckedReferences: ['clinic_id', 'patient_id'],
  filters: ['patient_id', 'clinic_id', 'amount'],
  sorts: { amount: invoices.amount },
  search: [],
  relations: relations.invoices,
  access: { list: visibleInvoices, read: visibleInvoices, create: writtenInvoices, update: writtenInvoices },
})

const tables = {
  ...{ suppliers, agents, goods, purchases, items },
  ...{ clinics, staff, patients, appointments, invoices },
} as const satisfies Record<string, PgTable>

/** Starts an app with both. */
export async function openBusinesses(t: Test) {
  const database = await testDatabase(t)
  for (const table of Object.values(tables)) await createTable(database, table)
  const businesses = [
    ...[suppliersResource, agentsResource, goodsResource, purchasesResource, itemsResource],
    ...[clinicsResource, staffResource, patientsResource, appointmentsResource, invoicesResource],
  ]
  const settings = { WEBHOOK_PRIVATE_ADDRESSES: 'true' }
  return testApp(t, settings, { database, resources: [...resources, ...businesses] })
}
