/** Resources of the tests whose rules follow relations: organizations, memberships, projects and tasks. */
import { Type } from '@sinclair/typebox'
import { getTableConfig, index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { resources } from '../../../src/resources.ts'
import { CALLER } from '../../api/src/rules/rules.ts'
import { common as commonFields, Id, Line, Nullable, OneOf } from '../../api/src/schemas/types.ts'
import type { Database } from '../../database/src/client/index.ts'
import { common, text } from '../../database/src/columns.ts'
import { newId } from '../../database/src/lib/ids.ts'
import { users } from '../../database/src/user-tables.ts'
import { defineRules } from '../../resources/src/definition/checked-rules.ts'
import type { ResourcePlugin } from '../../resources/src/routes/plugin.ts'
import { define } from '../../resources/test/collection/adopted.ts'
import type { Client, Json, Person } from './app.ts'
import { type Owner, testDatabase } from './database.ts'
import { createTable } from './rows.ts'
import { serve } from './serve.ts'

const ROLES = ['owner', 'member'] as const
export const STATES = ['open', 'closed'] as const

// Drizzle finds the names of columns by those of their tables: no other test in the process has these.
const organizations = pgTable('path_organizations', { ...common(), name: text().notNull() }, (t) => [
  index('path_organizations_created_at').on(t.created_at, t.id),
])

const organizationId = () =>
  uuid()
    .notNull()
    .references(() => organizations.id, { onDelete: 'cascade' })

export const memberships = pgTable(
  'path_memberships',
  {
    ...common(),
    organization_id: organizationId(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    role: text().$type<(typeof ROLES)[number]>().notNull(),
  },
  (t) => [
    uniqueIndex('path_memberships_organization_id').on(t.organization_id, t.user_id),
    index('path_memberships_user_id').on(t.user_id),
  ],
)

export const projects = pgTable(
  'path_projects',
  {
    ...common(),
    organization_id: organizationId(),
    lead_id: uuid(),
    code: text().notNull(),
    name: text().notNull(),
    status: text().$type<(typeof STATES)[number]>().notNull(),
  },
  (t) => [
    index('path_projects_created_at').on(t.created_at, t.id),
    index('path_projects_organization_id').on(t.organization_id, t.created_at, t.id),
    index('path_projects_lead_id').on(t.lead_id, t.created_at, t.id),
    index('path_projects_name').on(t.name),
    uniqueIndex('path_projects_code').on(t.code),
  ],
)

export const tasks = pgTable(
  'path_tasks',
  {
    ...common(),
    project_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    name: text().notNull(),
  },
  (t) => [index('path_tasks_project_id').on(t.project_id, t.created_at, t.id)],
)

const memos = pgTable(
  'path_memos',
  { ...common(), organization_id: organizationId(), name: text().notNull() },
  (t) => [index('path_memos_organization_id').on(t.organization_id, t.created_at, t.id)],
)

const name = Line(50, 'The name', 'Apollo')
const status = OneOf(STATES, { title: 'PathState', default: 'open', description: 'The state' })

/** An owner of the organization: both members are of the same row. */
const ofOwners = [
  { 'organization.memberships.user_id': CALLER, 'organization.memberships.role': 'owner' },
] as const
const ofMembers = [{ 'organization.memberships.user_id': CALLER }] as const

const toOne = { many: false, foreign: 'id' } as const
const organization = { to: organizations, local: 'organization_id', ...toOne } as const
export const organizationRelations = {
  organizations: { memberships: { to: memberships, local: 'id', foreign: 'organization_id', many: true } },
  memberships: { organization },
  projects: { organization: { ...organization, inverse: 'projects' } },
  tasks: { project: { to: projects, local: 'project_id', ...toOne, inverse: 'tasks', filters: ['status'] } },
  memos: { organization },
} as const
type Relations = typeof organizationRelations

declare module '../../resources/src/definition/known-relations.ts' {
  interface KnownRelations {
    path_organizations: { table: typeof organizations; relations: Relations['organizations'] }
    path_memberships: { table: typeof memberships; relations: Relations['memberships'] }
    path_projects: { table: typeof projects; relations: Relations['projects'] }
    path_tasks: { table: typeof tasks; relations: Relations['tasks'] }
    path_memos: { table: typeof memos; relations: Relations['memos'] }
  }
}

const memberOf = [{ 'memberships.user_id': CALLER }] as const
const ownerOf = [{ 'memberships.user_id': CALLER, 'memberships.role': 'owner' }] as const
const ofOrganization = { organization_id: Id('The organization') }
const membershipFields = {
  ...ofOrganization,
  user_id: Id('The user'),
  role: OneOf(ROLES, { title: 'PathRole', default: 'member', description: 'The role' }),
}
const code = Line(50, 'The code', 'P-1')
const projectFields = { ...ofOrganization, lead_id: Nullable(Id('Who leads it')), name, status }
const taskAccess = defineRules(tasks, {
  admin: true,
  manager: true,
  member: [{ 'project.organization.memberships.user_id': CALLER }],
})

export const organizationResources: ResourcePlugin[] = [
  serve(
    define(
      { name: 'organizations', singular: 'Organization', table: organizations, fields: { name } },
      {
        sorts: { created_at: organizations.created_at },
        relations: organizationRelations.organizations,
        access: {
          list: { admin: true, member: memberOf },
          read: { admin: true, member: memberOf },
          create: { admin: true, member: true },
          update: { admin: true, member: ownerOf },
          remove: { admin: true, member: ownerOf },
        },
      },
    ),
    {
      create: {
        async run({ store, id, body, actor: { userId } }) {
          const organization = await store.insert(body)
          await store.of(memberships).create({ organization_id: String(id), user_id: userId, role: 'owner' })
          return organization
        },
      },
    },
  ),
  serve(
    define(
      { name: 'memberships', singular: 'Membership', table: memberships, fields: membershipFields },
      {
        uncheckedReferences: ['user_id'],
        filters: ['organization_id', 'user_id'],
        relations: organizationRelations.memberships,
        access: {
          list: { admin: true, member: [{ user_id: CALLER }, ...ofMembers] },
          read: { admin: true, member: [{ user_id: CALLER }, ...ofMembers] },
          create: { admin: true, member: ofOwners },
          update: { admin: true, member: ofOwners },
          remove: { admin: true, member: [{ user_id: CALLER }, ...ofOwners] },
        },
      },
    ),
  ),
  serve(
    define(
      { name: 'projects', singular: 'Project', table: projects, fields: projectFields },
      {
        schemas: {
          read: Type.Object({ id: Id(), code, ...projectFields, ...commonFields }, { title: 'Project' }),
          create: Type.Object({ code: Type.Optional(code), ...projectFields }, { title: 'ProjectCreate' }),
          change: Type.Object(projectFields, { title: 'ProjectChange' }),
        },
        defaults: () => ({ code: newId() }),
        filters: ['organization_id', 'lead_id', 'name', 'status'],
        ranges: ['created_at'],
        sorts: { created_at: projects.created_at, name: projects.name },
        unindexed: ['status', 'name'],
        relations: organizationRelations.projects,
        access: {
          list: { admin: true, manager: [{ status: 'open' }, ...ofMembers], member: ofMembers },
          read: { admin: true, manager: [{ status: 'open' }, ...ofMembers], member: ofMembers },
          create: { admin: true, manager: ofMembers, member: ofMembers },
          replace: { admin: true, member: ofMembers },
          update: { admin: true, manager: ofMembers, member: ofMembers },
          remove: { admin: true, member: ofOwners },
        },
      },
    ),
    {
      actions: {
        closings: {
          ...{ operationId: 'closeProject', summary: 'Close a project', description: 'Closes a project.' },
          access: { admin: true, member: ofOwners },
          run: ({ store, current }) => store.update(current, { status: 'closed' }),
        },
        withdrawals: {
          operationId: 'withdrawProject',
          summary: 'Withdraw a project',
          description: 'Deletes a project, and responds with it as it was.',
          access: { admin: true, member: ofOwners },
          async run({ store, current }) {
            await store.remove(current)
            return current
          },
        },
      },
    },
  ),
  serve(
    define(
      { name: 'tasks', singular: 'Task', table: tasks, fields: { project_id: Id('The project'), name } },
      {
        filters: ['project_id'],
        relations: organizationRelations.tasks,
        access: {
          ...{
            list: taskAccess,
            read: taskAccess,
            create: taskAccess,
            update: taskAccess,
            remove: taskAccess,
          },
        },
      },
    ),
  ),
  serve(
    define(
      { name: 'memos', singular: 'Memo', table: memos, fields: { name }, readOnly: ofOrganization },
      {
        parent: { to: 'organizations', member: 'organization_id' },
        relations: organizationRelations.memos,
        access: { list: { member: ofMembers }, read: { member: ofMembers }, create: { member: ofMembers } },
      },
    ),
  ),
]

const organizationTables = [organizations, memberships, projects, tasks, memos]

const toColumns = ({ config }: ReturnType<typeof getTableConfig>['indexes'][number]) =>
  config.columns.flatMap((column) => ('name' in column ? String(column.name) : []))

/** The statements that create the indexes of the tables, for plans. */
export const organizationIndexes = organizationTables.flatMap((table) => {
  const { name: tableName, indexes } = getTableConfig(table)
  return indexes.map((each) => `create index on ${tableName} (${toColumns(each)})`)
})

/** Returns what an app that serves organizations replaces: its resources, and a database with their tables. */
export async function createOrganizations(
  t: Owner,
): Promise<{ database: Database; resources: ResourcePlugin[] }> {
  const database = await testDatabase(t)
  for (const table of organizationTables) await createTable(database, table)
  return { database, resources: [...resources, ...organizationResources] }
}

async function create(client: Client, path: string, body: object): Promise<Json> {
  const reply = await client.post(path, body)
  if (reply.status !== 201) throw new Error(`${path}: ${reply.text}`)
  return reply.body.data
}

/** Creates an organization of its first member, with others in it. */
export async function createOrganization(owner: Person, others: readonly Person[] = []): Promise<string> {
  const { id } = await create(owner.client, '/organizations', { name: 'Acme' })
  for (const { id: user_id } of others)
    await create(owner.client, '/memberships', { organization_id: id, user_id })
  return id
}

export const createProject = (client: Client, organization_id: string, fields: object = {}): Promise<Json> =>
  create(client, '/projects', { organization_id, name: 'Apollo', ...fields })

/** Ends a membership. */
export async function removeMember(client: Client, organizationId: string, userId: string): Promise<void> {
  const { body } = await client.get(`/memberships?organization_id=${organizationId}&user_id=${userId}`)
  const reply = await client.delete(`/memberships/${body.data[0].id}`)
  if (reply.status !== 204) throw new Error(reply.text)
}
