/**
 * The types of `defineResource`, checked by the compiler: `npm run typecheck` fails where one of these lines is wrong.
 * Each `@ts-expect-error` is an assertion: it is an error itself if the types accept the line below it.
 */
import { Type } from '@sinclair/typebox'
import { users } from '../../drizzle/user-tables.ts'
import { CALLER } from '../../plugins/access/index.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { Order, OrderChange, OrderCreate } from '../fixtures/schemas/orders.ts'
import { orderProducts, orders } from '../fixtures/tables/orders.ts'
import { products } from '../fixtures/tables/products.ts'
import { Note, NoteChange, NoteCreate, notes } from '../helpers/notes.ts'

/** A definition without mistakes, to which each line below adds one. */
const named = {
  name: 'orders',
  singular: 'Order',
  plural: 'Orders',
  description: 'Orders',
  table: orders,
  schemas: { read: Order, create: OrderCreate, change: OrderChange },
} as const
const lists = { filters: [], sorts: {}, search: [] } as const
const base = { ...named, ...lists, relations: {}, access: {} } as const
const user = { to: users, local: 'user_id', foreign: 'id', many: false } as const

const mistyped = [{ user: CALLER }] as const

/** Never called: only its types matter. */
export function checkTypes() {
  defineResource({ ...base, filters: ['status', 'user_id'], kept: ['status'], immutable: ['user_id'] })
  defineResource({ ...base, fields: { note: { read: ['admin'], write: [] } } })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, fields: { notes: { read: ['admin'] } } })
  // @ts-expect-error: there is no such role
  defineResource({ ...base, fields: { note: { read: ['boss'] } } })
  // @ts-expect-error: every role reads when a row was created
  defineResource({ ...base, fields: { created_at: { read: ['admin'] } } })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, filters: ['statuss'] })
  // @ts-expect-error: a column that is no field is never sent, so it is no filter
  defineResource({ ...base, filters: ['revision'] })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, search: ['number', 'text'] })
  // @ts-expect-error: the number is not set at creation
  defineResource({ ...base, immutable: ['number'] })
  // @ts-expect-error: PUT cannot keep what it cannot change
  defineResource({ ...base, kept: ['user_id'] })
  // @ts-expect-error: no caller can set it, so it is not withheld
  defineResource({ ...base, withheld: () => ['number'] })

  const note_null = ['note'] as const
  defineResource({
    ...base,
    filters: ['status'],
    negations: ['status'],
    nullChecks: note_null,
    prefixes: ['number'],
  })
  defineResource({ ...base, nullChecks: note_null, unindexed: ['note_null', 'status_not', 'number_prefix'] })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, negations: ['statuss'] })
  // @ts-expect-error: a number is never null
  defineResource({ ...base, nullChecks: ['number'] })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, prefixes: ['nmber'] })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, unindexed: ['notes_null'] })
  defineResource({
    ...base,
    relations: { user: { ...user, filters: ['status'] } },
    unindexed: ['user.status'],
  })
  // @ts-expect-error: users have no such column
  defineResource({ ...base, relations: { user: { ...user, filters: ['state'] } } })
  // @ts-expect-error: orders have no such relation
  defineResource({ ...base, relations: { user }, unindexed: ['owner.status'] })

  defineResource({ ...base, sorts: { number: orders.number } })
  // @ts-expect-error: orders have no such column
  defineResource({ ...base, sorts: { numbers: orders.number } })
  // @ts-expect-error: orders have no such column
  defineResource({ ...base, sorts: { number: orders.numbers } })

  defineResource({ ...base, relations: { user } })
  // @ts-expect-error: a relation leads to a table
  defineResource({ ...base, relations: { user: { ...user, to: 'users' } } })
  // @ts-expect-error: orders have no such column
  defineResource({ ...base, relations: { user: { ...user, local: 'owner_id' } } })
  // @ts-expect-error: users have no such column
  defineResource({ ...base, relations: { user: { ...user, foreign: 'order_id' } } })
  const through = { table: orderProducts, local: orderProducts.order_id, foreign: orderProducts.product_id }
  const joined = { to: products, local: 'id', foreign: 'id', through, many: true } as const
  defineResource({ ...base, relations: { joined } })
  // @ts-expect-error: products have no such column
  defineResource({ ...base, relations: { joined: { ...joined, foreign: 'product_id' } } })

  defineResource({
    ...base,
    access: { list: { admin: true, member: [{ user_id: CALLER, status: 'paid' }] } },
  })
  // @ts-expect-error: orders have no such column
  defineResource({ ...base, access: { list: { member: [{ user: CALLER }] } } })
  // @ts-expect-error: orders have no such column, wherever the condition is written
  defineResource({ ...base, access: { list: { member: mistyped } } })
  // @ts-expect-error: orders have no such status
  defineResource({ ...base, access: { list: { member: [{ status: 'payed' }] } } })
  // @ts-expect-error: the total is a number
  defineResource({ ...base, access: { list: { member: [{ total_amount: '5' }] } } })
  // @ts-expect-error: a status is no id
  defineResource({ ...base, access: { list: { member: [{ status: CALLER }] } } })
  // @ts-expect-error: a time is no id
  defineResource({ ...base, access: { list: { member: [{ created_at: CALLER }] } } })
  // @ts-expect-error: there is no such role
  defineResource({ ...base, access: { list: { owner: true } } })
  // @ts-expect-error: there is no such operation
  defineResource({ ...base, access: { delete: { admin: true } } })

  const code = { schema: Type.String(), value: ({ number }: { number: string }) => number }
  defineResource({ ...base, versions: { 3: { rename: { note: 'text' }, hide: ['status'], add: { code } } } })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, versions: { 3: { rename: { nte: 'text' } } } })
  // @ts-expect-error: orders have no such field
  defineResource({ ...base, versions: { 3: { hide: ['stauts'] } } })
  // @ts-expect-error: every version has an id
  defineResource({ ...base, versions: { 3: { hide: ['id'] } } })
  const total = { schema: Type.String(), value: (row: { total_amount: number }) => row.total_amount }
  // @ts-expect-error: a number is no string
  defineResource({ ...base, versions: { 3: { add: { total } } } })

  const note = {
    ...lists,
    name: 'notes',
    singular: 'Note',
    plural: 'Notes',
    description: 'Notes',
    table: notes,
    schemas: { read: Note, create: NoteCreate, change: NoteChange },
    relations: {},
    access: {},
  } as const
  const status = { draft: ['published'], published: [], archived: [] } as const
  defineResource({ ...note, parent: { to: 'users', member: 'user_id' }, transitions: { status } })
  // @ts-expect-error: notes have no such field
  defineResource({ ...note, parent: { to: 'users', member: 'owner_id' } })
  // @ts-expect-error: notes have no such field
  defineResource({ ...note, transitions: { state: status } })
  // @ts-expect-error: a title is no state
  defineResource({ ...note, transitions: { title: { draft: [] } } })
  // @ts-expect-error: notes have no such status
  defineResource({ ...note, transitions: { status: { ...status, draft: ['publishd'] } } })
  // @ts-expect-error: notes have no such status
  defineResource({ ...note, transitions: { status: { ...status, deleted: [] } } })
  // @ts-expect-error: the successors of a status are missing
  defineResource({ ...note, transitions: { status: { draft: ['published'] } } })
}

const owner_path = [{ 'user.id': CALLER }] as const
const deep = [{ 'user.orders.user_id': CALLER, status: 'paid' }] as const

export function checkPaths() {
  const relations = { user } as const
  defineResource({ ...base, relations, access: { list: { member: owner_path } } })
  defineResource({ ...base, relations, access: { list: { member: deep } } })
  defineResource({ ...base, relations, access: { list: { member: [{ 'user.status': 'active' }] } } })
  // @ts-expect-error: users have no such status
  defineResource({ ...base, relations, access: { list: { member: [{ 'user.status': 'gone' }] } } })
  // @ts-expect-error: users have no such column
  defineResource({ ...base, relations, access: { list: { member: [{ 'user.ids': CALLER }] } } })
  // @ts-expect-error: a timestamp is never the caller
  defineResource({ ...base, relations, access: { list: { member: [{ 'user.created_at': CALLER }] } } })
  // @ts-expect-error: orders have no such relation
  defineResource({ ...base, relations, access: { list: { member: [{ 'users.id': CALLER }] } } })
  // @ts-expect-error: orders have no such relation
  defineResource({ ...base, relations, access: { list: { member: [{ 'users.orders.user_id': CALLER }] } } })
  // @ts-expect-error: orders have no relations at all
  defineResource({ ...base, access: { list: { member: owner_path } } })
  // @ts-expect-error: orders have no such relation
  defineResource({ ...base, relations, access: { list: { member: [{ status: 'paid', 'usr.id': CALLER }] } } })
}
