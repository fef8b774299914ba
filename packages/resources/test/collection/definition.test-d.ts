/**
 * The types of `collection`, checked by the compiler: `npm run typecheck` fails where one of these lines is wrong.
 * Each `@ts-expect-error` is an assertion: it is an error itself if the types accept the line below it.
 */
import { Type } from '@sinclair/typebox'
import { CALLER, NOT_NULL } from '../../../api/src/rules/rules.ts'
import { common, Line, Nullable } from '../../../api/src/schemas/types.ts'
import { users } from '../../../database/src/user-tables.ts'
import { CustomerSales, customerSales } from '../../../testing/helpers/customer-sales.ts'
import { Note, NoteChange, NoteCreate, notes } from '../../../testing/helpers/notes.ts'
import {
  memberships,
  organizationRelations,
  projects,
  tasks,
} from '../../../testing/helpers/organizations.ts'
import {
  Order,
  OrderChange,
  OrderCreate,
  orderProducts,
  orders,
  products,
} from '../../../testing/helpers/shop.ts'
import { type CheckedRules, defineRules } from '../../src/definition/checked-rules.ts'
import { collection } from '../../src/definition/definition.ts'

/** A definition without mistakes, to which each line below adds one. */
const schemas = { read: Order, create: OrderCreate, change: OrderChange } as const
const base = { description: 'Orders', table: orders, schemas, relations: {}, access: {} } as const
const user = { to: users, local: 'user_id', foreign: 'id', many: false } as const
const through = { table: orderProducts, local: orderProducts.order_id, foreign: orderProducts.product_id }
const joined = { to: products, local: 'id', foreign: 'id', through, many: true } as const
const meaning = { code: 'OUT_OF_RANGE', message: 'is too long' } as const
const Labeled = Type.Object({ ...Order.properties, label: Type.String() })
const mistyped = [{ user: CALLER }] as const

/** Never called: only its types matter. */
export function checkFields() {
  collection({
    ...base,
    bodies: { kept: ['status'], immutable: ['user_id'] },
    lists: {
      ...{
        filters: ['status', 'user_id'],
        negations: ['status'],
        nullChecks: ['note'],
        prefixes: ['number'],
      },
      unindexed: ['note_null', 'status_not', 'number_prefix', 'user.status'],
      sorts: { number: orders.number },
    },
    fields: { note: { read: ['admin'], write: [] } },
    relations: { user: { ...user, filters: ['status'] }, joined },
    access: { list: { admin: true, member: [{ user_id: CALLER, status: 'paid' }] } },
  })
  // @ts-expect-error: orders have no such field
  collection({ ...base, fields: { notes: { read: ['admin'] } } })
  const currency = Nullable(Line(3, 'The currency', 'USD'))
  const nullable = Type.Object({ ...OrderCreate.properties, currency })
  // @ts-expect-error: the column is NOT NULL
  collection({ ...base, schemas: { ...schemas, create: nullable } })
  // @ts-expect-error: PATCH could set null
  collection({ ...base, schemas: { ...schemas, change: Type.Object({ currency }) } })
  // The column has a default, or the code of the route sets it.
  const optional = Type.Object({ ...OrderCreate.properties, currency: Type.Optional(Type.String()) })
  collection({ ...base, schemas: { ...schemas, create: optional } })
  // A required field may have a nullable column.
  const required = Type.Object({ ...OrderCreate.properties, note: Line(9, 'The note', 'x') })
  collection({ ...base, schemas: { ...schemas, create: required } })
  // @ts-expect-error: the application has no such role
  collection({ ...base, access: { list: { admin: true, organizer: true } } })
  // @ts-expect-error: there is no such role
  collection({ ...base, fields: { note: { read: ['boss'] } } })
  // @ts-expect-error: every role reads when a row was created
  collection({ ...base, fields: { created_at: { read: ['admin'] } } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { filters: ['statuss'] } })
  // @ts-expect-error: a column that is no field is never sent, so it is no filter
  collection({ ...base, lists: { filters: ['revision'] } })
  // @ts-expect-error: nothing equals a list of items
  collection({ ...base, lists: { filters: ['items'] } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { ranges: ['amount'] } })
  // @ts-expect-error: an address is not more than another
  collection({ ...base, lists: { ranges: ['shipping_address'] } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { search: ['number', 'text'] } })
  // @ts-expect-error: the number is not set at creation
  collection({ ...base, bodies: { immutable: ['number'] } })
  // @ts-expect-error: PUT cannot keep what it cannot change
  collection({ ...base, bodies: { kept: ['user_id'] } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, constraints: { orders_note: { ...meaning, fields: ['text'] } } })
  // @ts-expect-error: the label has neither a column nor a value from `computed`
  collection({ ...base, schemas: { ...schemas, read: Labeled } })
  collection({ ...base, schemas: { ...schemas, read: Labeled }, computed: () => ({ label: 'a' }) })
  // @ts-expect-error: no caller can set it, so it is not withheld
  collection({ ...base, bodies: { withheld: () => ['number'] } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { negations: ['statuss'] } })
  // @ts-expect-error: a number is never null
  collection({ ...base, lists: { nullChecks: ['number'] } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { prefixes: ['nmber'] } })
  collection({
    ...base,
    lists: { aggregates: { measures: ['total_amount', 'created_at'], groups: ['status'] } },
  })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { aggregates: { measures: ['amount'] } } })
  // @ts-expect-error: a list of items has no sum
  collection({ ...base, lists: { aggregates: { measures: ['items'] } } })
  // @ts-expect-error: orders have no such field
  collection({ ...base, lists: { aggregates: { groups: ['statuss'] } } })
  // @ts-expect-error: users have no such column
  collection({ ...base, relations: { user: { ...user, filters: ['state'] } } })
  // @ts-expect-error: orders have no such column
  collection({ ...base, lists: { sorts: { numbers: orders.number } } })
  // @ts-expect-error: the order would be another than the name says
  collection({ ...base, lists: { sorts: { number: orders.currency } } })
  // @ts-expect-error: pages would lose the orders without a note
  collection({ ...base, lists: { sorts: { note: orders.note } } })
  // @ts-expect-error: a relation leads to a table
  collection({ ...base, relations: { user: { ...user, to: 'users' } } })
  // @ts-expect-error: orders have no such column
  collection({ ...base, relations: { user: { ...user, local: 'owner_id' } } })
  // @ts-expect-error: users have no such column
  collection({ ...base, relations: { user: { ...user, foreign: 'order_id' } } })
  // @ts-expect-error: products have no such column
  collection({ ...base, relations: { joined: { ...joined, foreign: 'product_id' } } })
  // @ts-expect-error: orders have no such column, wherever the condition is written
  collection({ ...base, access: { list: { member: mistyped } } })
  // @ts-expect-error: orders have no such status
  collection({ ...base, access: { list: { member: [{ status: 'payed' }] } } })
  // @ts-expect-error: the total is a number
  collection({ ...base, access: { list: { member: [{ total_amount: '5' }] } } })
  // @ts-expect-error: a status is no id
  collection({ ...base, access: { list: { member: [{ status: CALLER }] } } })
  // @ts-expect-error: there is no such role
  collection({ ...base, access: { list: { owner: true } } })
  // @ts-expect-error: there is no such operation
  collection({ ...base, access: { delete: { admin: true } } })

  const { table: _, schemas: __, ...others } = base
  const ofView = { ...others, view: customerSales, schemas: { read: CustomerSales } } as const
  collection({ ...ofView, lists: { filters: ['status'] }, access: { list: { member: [{ id: CALLER }] } } })
  // @ts-expect-error: the view has no such column
  collection({ ...ofView, lists: { filters: ['statuss'] } })
  // @ts-expect-error: the view has no such column
  collection({ ...ofView, access: { list: { member: [{ owner_id: CALLER }] } } })
  // @ts-expect-error: the view lacks the column of the label
  collection({ ...ofView, schemas: { read: Labeled } })
  // @ts-expect-error: a view has no bodies
  collection({ ...ofView, schemas })

  const ofNotes = { table: notes, schemas: { read: Note, create: NoteCreate, change: NoteChange } } as const
  const note = { ...base, ...ofNotes } as const
  const status = { draft: ['published'], published: [], archived: [] } as const
  collection({ ...note, parent: { to: 'users', member: 'user_id' }, transitions: { status } })
  // @ts-expect-error: notes have no such field
  collection({ ...note, parent: { to: 'users', member: 'owner_id' } })
  // @ts-expect-error: a title is no state
  collection({ ...note, transitions: { title: { draft: [] } } })
  // @ts-expect-error: notes have no such status
  collection({ ...note, transitions: { status: { ...status, draft: ['publishd'] } } })
  // @ts-expect-error: notes have no such status
  collection({ ...note, transitions: { status: { ...status, deleted: [] } } })
  // @ts-expect-error: the successors of a status are missing
  collection({ ...note, transitions: { status: { draft: ['published'] } } })
}

const taskFields = { project_id: Type.String(), name: Type.String() }
const Task = Type.Object({ id: Type.String(), ...taskFields, ...common })
const TaskFields = Type.Object(taskFields)
const ofTasks = { table: tasks, schemas: { read: Task, create: TaskFields, change: TaskFields } } as const
const task = { ...base, ...ofTasks, relations: organizationRelations.tasks } as const

// Of constants, the compiler does not reject names beside others that it knows.
const unknown_relation = [{ name: 'a', 'project.organization.members.user_id': CALLER }] as const
const unknown_column = [{ name: 'a', 'project.organization.memberships.user': CALLER }] as const

export function checkPaths() {
  const role = { 'project.organization.memberships.role': 'owner' } as const
  const caller = { 'project.organization.memberships.user_id': CALLER } as const
  defineRules(tasks, { admin: true, member: [{ name: 'a' }, { ...caller, ...role }] })
  defineRules(tasks, { member: [{ 'project.lead_id': NOT_NULL }] })
  // The relation from organizations to projects is the inverse one of projects.
  defineRules(tasks, { member: [{ 'project.organization.projects.status': 'open' }] })
  defineRules(memberships, { member: [{ 'organization.projects.tasks.name': 'a' }] })
  // @ts-expect-error: a name is never null
  defineRules(tasks, { member: [{ 'project.name': NOT_NULL }] })
  // @ts-expect-error: only a path can end with any value
  defineRules(projects, { member: [{ lead_id: NOT_NULL }] })
  // @ts-expect-error: tasks have no such relation
  defineRules(tasks, { member: [{ 'projects.lead_id': CALLER }] })
  // @ts-expect-error: projects have no such column
  defineRules(tasks, { member: [{ 'project.leader_id': CALLER }] })
  // @ts-expect-error: projects have no such status
  defineRules(tasks, { member: [{ 'project.status': 'opened' }] })
  // @ts-expect-error: projects have no such relation
  defineRules(tasks, { member: [{ 'project.organizations.id': CALLER }] })
  // @ts-expect-error: a timestamp is never the caller
  defineRules(tasks, { member: [{ 'project.organization.created_at': CALLER }] })
  // @ts-expect-error: organizations have no such relation
  defineRules(tasks, { member: [{ 'project.organization.members.user_id': CALLER }] })
  // @ts-expect-error: memberships have no such role
  defineRules(tasks, { member: [{ 'project.organization.memberships.role': 'boss' }] })
  // @ts-expect-error: a relation is no column
  defineRules(tasks, { member: [{ 'project.organization': CALLER }] })
  // @ts-expect-error: no definition has added the relations of notes
  const rules = defineRules(notes, { member: [{ 'user.id': CALLER }] })
  // The compiler reports the mistake once, where it is written.
  defineRules(notes, rules)
  const ofNotes: CheckedRules<{ member: [{ 'user.id': string }] }, typeof notes> = {
    member: [{ 'user.id': 'notes has no relation user; there is none in KnownRelations.notes' }],
  }
  defineRules(notes, ofNotes)
  // @ts-expect-error: there is no such role
  defineRules(tasks, { admin: true, boss: true })
  const unknown: unknown = true
  // @ts-expect-error: it may be no rule
  defineRules(tasks, { member: unknown })

  collection({ ...task, access: { list: { member: [caller] } } })
  // @ts-expect-error: organizations have no such relation
  collection({ ...task, access: { list: { admin: true, member: unknown_relation } } })
  // @ts-expect-error: memberships have no such column
  collection({ ...task, access: { list: { admin: true }, read: { member: unknown_column } } })

  collection({ ...task, access: { actions: { closings: { member: [role] } } } })
  // @ts-expect-error: memberships have no such column
  collection({ ...task, access: { actions: { closings: { member: unknown_column } } } })
}
