/** Collections of the tests of filters: parcels with a field of each type, tasks that refer to others and expire. */
import { Type } from '@sinclair/typebox'
import { boolean, doublePrecision, index, pgTable, uuid } from 'drizzle-orm/pg-core'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { Id, Line, Nullable, OneOf, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import { common, folded, integer, moment, text } from '../../../database/src/columns.ts'
import { users } from '../../../database/src/user-tables.ts'
import { define } from '../collection/adopted.ts'

export const parcels = pgTable(
  'parcels',
  {
    ...common(),
    city: text().notNull(),
    size: text().$type<'small' | 'large'>(),
    weight: integer(),
    level: doublePrecision(),
    is_open: boolean().notNull(),
    taken_at: moment(),
    title: text(),
    body: text(),
    search: folded(),
  },
  (t) => [
    index('parcels_created_at').on(t.created_at, t.id),
    index('parcels_city').on(t.city, t.created_at, t.id),
    index('parcels_size').on(t.size, t.created_at, t.id),
    index('parcels_weight').on(t.weight, t.created_at, t.id),
    index('parcels_level').on(t.level, t.created_at, t.id),
    index('parcels_is_open').on(t.is_open, t.created_at, t.id),
  ],
)

const parcelFields = {
  city: Text({ maxLength: 20 }),
  size: Nullable(OneOf(['small', 'large'])),
  weight: Nullable(Type.Integer()),
  level: Type.Unsafe<number | null>({ type: ['number', 'null'] }),
  is_open: Type.Boolean(),
  taken_at: Type.Unsafe<string | null>({ ...Timestamp('The time'), type: ['string', 'null'] }),
  title: Nullable(Line(300, 'The title', 'Tea')),
  body: Nullable(Line(9, 'The text', 'Tea')),
}

export const parcelsResource = define(
  { name: 'parcels', singular: 'Parcel', table: parcels, fields: {}, readOnly: parcelFields },
  {
    verbs: ['list'],
    filters: ['city', 'size', 'weight', 'level', 'is_open'],
    ranges: ['level', 'taken_at'],
    negations: ['city', 'size', 'weight', 'is_open'],
    nullChecks: ['size', 'weight'],
    prefixes: ['title'],
    // Few parcels are listed without them.
    unindexed: ['city_not', 'size_not', 'weight_not', 'taken_at', 'title_prefix'],
    sorts: { created_at: parcels.created_at },
    search: ['title', 'body'],
    access: { list: { admin: true } },
  },
)

export const tasks = pgTable(
  'tasks',
  {
    ...common(),
    kind: text().$type<'plan' | 'step'>().notNull(),
    parent_id: uuid(),
    user_id: uuid().notNull(),
    expires_at: moment().notNull(),
  },
  (t) => [
    index('tasks_created_at').on(t.created_at, t.id),
    index('tasks_kind').on(t.kind, t.created_at, t.id),
    index('tasks_parent_id').on(t.parent_id),
    index('tasks_user_id').on(t.user_id),
  ],
)

const taskFields = { kind: OneOf(['plan', 'step']), parent_id: Nullable(Id()), user_id: Id() }

export const tasksResource = define(
  { name: 'tasks', singular: 'Task', table: tasks, fields: {}, readOnly: taskFields },
  {
    verbs: ['list'],
    expiry: tasks.expires_at,
    filters: ['kind'],
    sorts: { created_at: tasks.created_at },
    relations: {
      parent: { to: tasks, local: 'parent_id', foreign: 'id', many: false, filters: ['kind'] },
      user: { to: users, local: 'user_id', foreign: 'id', many: false, filters: ['status', 'role', 'email'] },
    },
    // Every caller lists all tasks, and may read their own.
    access: {
      list: { admin: true, manager: true, member: true },
      read: { admin: true, member: [{ user_id: CALLER }] },
    },
  },
)
