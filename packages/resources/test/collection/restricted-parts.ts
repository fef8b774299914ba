/** Resources of an adopter with fields that not every role may read or write. */
import { Type } from '@sinclair/typebox'
import { pgTable, text as plainText, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import type { Test } from 'tap'
import { v7 } from 'uuid'
import { resources } from '../../../../src/resources.ts'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { common as commonFields, Id, Integer, Nullable, OneOf, Text } from '../../../api/src/schemas/types.ts'
import { common, folded, integer, text } from '../../../database/src/columns.ts'
import { toEveryRole } from '../../../database/src/roles.ts'
import { type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { type Actions, serve } from '../../../testing/helpers/serve.ts'
import { createUniqueName } from '../../../testing/helpers/versioned-client.ts'
import { define } from './adopted.ts'

const GRADES = ['alpha', 'zeta'] as const

// Drizzle finds the names of columns by those of their tables: no other test in the process has these.
export const parts = pgTable(
  'restricted_parts',
  {
    ...common(),
    owner_id: uuid(),
    serial: text().notNull(),
    name: text().notNull(),
    stock: integer().notNull(),
    cost: integer().notNull(),
    grade: plainText().$type<(typeof GRADES)[number]>().notNull(),
    remark: text(),
    code: text().notNull(),
    search: folded(),
  },
  (table) => [uniqueIndex('parts_serial').on(table.serial), uniqueIndex('parts_code').on(table.code)],
)

const tools = pgTable(
  'restricted_tools',
  {
    ...common(),
    owner_id: uuid(),
    serial: text().notNull(),
    stock: integer().notNull(),
    pin: text().notNull(),
  },
  (table) => [uniqueIndex('tools_serial').on(table.serial), uniqueIndex('tools_pin').on(table.pin)],
)

const repairs = pgTable('restricted_repairs', {
  ...common(),
  part_id: uuid()
    .notNull()
    .references(() => parts.id),
})

export const writable = {
  owner_id: Nullable(Id('The owner')),
  serial: Text({ minLength: 1, maxLength: 50, description: 'The serial number', examples: ['S-1'] }),
  name: Text({ minLength: 1, maxLength: 50, description: 'The name', examples: ['Bolt'] }),
  stock: Integer(0, 1_000_000, { default: 5, description: 'The stock', examples: [5] }),
  cost: Integer(0, 1_000_000, { default: 100, description: 'The cost', examples: [1] }),
  grade: OneOf(GRADES, { title: 'PartGrade', default: 'alpha', description: 'The grade' }),
  remark: Nullable(Text({ minLength: 1, maxLength: 50, description: 'The remark', examples: ['x'] })),
}
const code = Text({ minLength: 1, maxLength: 50, description: 'The code', examples: ['C-1'] })

const all = toEveryRole(true)
const everyVerb = { list: all, read: all, create: all, replace: all, update: all, remove: all }
export const admins = ['admin'] as const
export const staff = ['admin', 'manager'] as const

export const partsResource = define(
  { name: 'parts', singular: 'Part', table: parts, fields: writable },
  {
    schemas: {
      read: Type.Object(
        {
          ...{ id: Id(), ...writable, code },
          double_cost: Type.Integer({ description: 'Twice the cost', examples: [2] }),
          kind: Type.String({ description: 'The kind', examples: ['part'] }),
          ...commonFields,
        },
        { title: 'Part' },
      ),
      create: Type.Object({ ...writable, code: Type.Optional(code) }, { title: 'PartCreate' }),
      change: Type.Object({ ...writable, code }, { title: 'PartChange' }),
    },
    computed: ({ cost }) => ({ double_cost: Number(cost) * 2, kind: 'part' }),
    filters: ['cost', 'grade', 'name'],
    negations: ['grade'],
    nullChecks: ['remark'],
    ranges: ['cost'],
    prefixes: ['name'],
    sorts: { cost: parts.cost, grade: parts.grade, created_at: parts.created_at },
    search: ['name'],
    aggregates: { measures: ['stock', 'cost'], groups: ['name', 'grade'] },
    unindexed: ['cost', 'grade', 'name', 'remark_null', 'created_at', 'name_prefix'],
    // Events of a member are those of its own parts.
    access: { ...everyVerb, remove: { admin: true, member: [{ owner_id: CALLER }] } },
    fields: {
      stock: { write: staff },
      cost: { read: staff, write: admins },
      grade: { read: admins },
      remark: { read: admins },
      code: { read: admins },
      double_cost: { read: staff },
      kind: {},
    },
    defaults: () => ({ code: `SECRET-${v7()}` }),
  },
)

export const repairsResource = define(
  { name: 'repairs', singular: 'Repair', table: repairs, fields: { part_id: Id('The part') } },
  {
    access: everyVerb,
    sorts: { created_at: repairs.created_at },
    unindexed: ['created_at', 'part.grade', 'part.cost'],
    relations: {
      part: {
        to: parts,
        local: 'part_id',
        foreign: 'id',
        many: false,
        inverse: 'repairs',
        filters: ['grade', 'cost'],
      },
    },
  },
)

const toolFields = { owner_id: writable.owner_id, serial: writable.serial, stock: writable.stock }
const writtenToolFields = { ...toolFields, pin: Type.Optional(code) }
const toolsResource = define(
  { name: 'tools', singular: 'Tool', table: tools, fields: toolFields },
  {
    schemas: {
      read: Type.Object({ id: Id(), ...toolFields, ...commonFields }, { title: 'Tool' }),
      create: Type.Object(writtenToolFields, { title: 'ToolCreate' }),
      change: Type.Object(writtenToolFields, { title: 'ToolChange' }),
    },
    access: { ...everyVerb, update: { admin: true, member: [{ owner_id: CALLER }] } },
    sorts: { created_at: tools.created_at },
    unindexed: ['created_at'],
    fields: { stock: { write: staff }, pin: { read: admins } },
    defaults: () => ({ pin: v7() }),
  },
)

/** The shipped resources with those above. */
const actions = {
  clones: {
    operationId: 'clonePart',
    summary: 'Clone a part',
    description: 'Creates a part with the same code, which is taken.',
    access: all,
    run: ({ store, current }) => store.insert({ ...current, id: v7(), serial: createUniqueName('serial') }),
  },
  inspections: {
    ...{ operationId: 'inspectPart', summary: 'Inspect a part', description: 'Inspects a part.' },
    access: all,
    run: ({ store, current }) => store.update(current, { stock: Number(current.stock) + 1 }),
  },
} satisfies Actions

export const served = [...resources, serve(partsResource, { actions }), repairsResource, toolsResource]

export const versions = ['/v1', '/v2'] as const
export const getData = ({ body }: Reply): Json => body.data.attributes ?? body.data
export const inVersion = (version: string, type: string, attributes: Json) =>
  version === '/v2' ? { data: { type, attributes } } : attributes

const secret = { grade: 'zeta', remark: 'secretive', cost: 98_765 }
export const newVisible = () => ({ serial: createUniqueName('serial'), name: 'Nut' })

/** Starts an app with these resources, with a manager, a member, and a part that has a repair. */
export async function openParts(t: Test, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  for (const table of [parts, repairs, tools]) await createTable(database, table)
  await database.run('create unique index parts_code on restricted_parts (code)')
  const all = { WEBHOOK_PRIVATE_ADDRESSES: 'true', ...settings }
  const test = await testApp(t, all, { database, resources: served })
  const { admin, person } = test
  const people = { manager: await person('manager'), member: await person('member') }
  /** Creates a part with values in the hidden fields. */
  const newPart = async (fields: Json = {}): Promise<Json> => {
    const part = { serial: createUniqueName('serial'), name: 'Bolt', ...secret, ...fields }
    const reply = await admin.post('/v1/parts', part)
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.body.data
  }
  const sold = await newPart()
  await admin.post('/v1/repairs', { part_id: sold.id })
  const clients = { manager: people.manager.client, member: people.member.client }
  return { ...test, people, clients, newPart, sold }
}

/** Each hidden field of each role, in each version, and a part of its value that appears nowhere else. */
export const SECRETS: Record<'manager' | 'member', readonly RegExp[]> = {
  manager: [/grade|zeta/, /remark|secretive/, /"code"|,code|SECRET-/],
  member: [/grade|zeta/, /remark|secretive/, /"code"|,code|SECRET-/, /cost|98765\b/, /197530/],
}
export const hiddenNames = {
  manager: ['grade', 'remark', 'code'],
  member: ['grade', 'remark', 'code', 'cost', 'double_cost'],
}
