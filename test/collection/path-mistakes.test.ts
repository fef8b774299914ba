/** Paths of access rules that lead nowhere, or of which a step has no index, stop the start. */
import { index, pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { type Access, CALLER, type Condition, NOT_NULL, type RoleRules } from '../../plugins/access/rules.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { buildAccessTable } from '../../plugins/openapi/access-tables.ts'
import { resources } from '../../src/app.ts'
import { memberships, organizationResources } from '../helpers/organizations.ts'

/** @returns the mistakes */
function compileAll(definitions: readonly ResourceDefinition[]): string {
  try {
    compileResources([...resources, ...definitions], [1, 2])
    return ''
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Compiles the resources, with other parts of one. @returns the mistakes */
const compile = (name: string, parts: Partial<ResourceDefinition>) =>
  compileAll(organizationResources.map((each) => (each.name === name ? { ...each, ...parts } : each)))

const allow = (condition: Condition, verb = 'list'): Access => ({ [verb]: { member: [condition] } })

const cases: [string, Condition, string][] = [
  [
    'tasks',
    { 'project.organisation.memberships.user_id': CALLER },
    'names "organisation", which is no relation of projects; there are "organization", "tasks"',
  ],
  [
    'projects',
    { 'members.user_id': CALLER },
    'names "members", which is no relation of projects; there are "organization", "tasks"',
  ],
  [
    'projects',
    { 'organization.memberships.person_id': CALLER },
    'names "person_id", which is no column of memberships',
  ],
  ['tasks', { 'project.organization.projects.organization.id': 'x' }, 'has more than 3 relations'],
  [
    'projects',
    { 'organization.memberships.role': CALLER },
    'compares "role" with the caller: it is no uuid and no text',
  ],
  ['projects', { 'organization.memberships.created_at': CALLER }, 'compares "created_at" with the caller'],
  ['tasks', { 'project.name': NOT_NULL }, 'is always not null'],
  ['projects', { 'organization.memberships.role': 'boss' }, 'is never "boss"; there are "owner", "member"'],
  [
    'projects',
    { 'organization.name': CALLER },
    'needs an index of path_organizations that begins with "name"',
  ],
]

for (const [name, condition, mistake] of cases)
  t.test(`${Object.keys(condition)}: ${mistake}`, async (t) => {
    const message = compile(name, { access: allow(condition) })
    t.ok(
      message.includes(`${name}: access to list of member: "${Object.keys(condition)}" ${mistake}`),
      message,
    )
  })

t.test('only a path can end with any value', async (t) => {
  const message = compile('projects', { access: allow({ lead_id: NOT_NULL }) })
  t.match(message, 'projects: access to list of member "lead_id" cannot be NOT_NULL: only a path can')
  const tasks = organizationResources.find(({ name }) => name === 'tasks')
  if (!tasks) throw new Error('There are tasks')
  const access = allow({ 'project.lead_id': NOT_NULL })
  t.equal(compile('tasks', { access }), '')
  t.equal(buildAccessTable({ ...tasks, access }).list?.member, 'project.lead_id not null')
})

t.test('a rule without a mistake compiles', async (t) => {
  t.equal(compile('projects', {}), '')
  t.equal(
    compile('projects', { access: allow({ 'organization.memberships.role': 'owner', status: 'open' }) }),
    '',
  )
})

t.test('a request without credentials is no caller', async (t) => {
  const access = {
    list: { admin: true, anonymous: [{ 'organization.memberships.user_id': CALLER }] },
  } as const
  t.match(compile('projects', { access }), 'access to list of anonymous cannot name the caller')
})

t.test('rows that refer to a new one do not permit its creation', async (t) => {
  const access = allow({ 'tasks.project_id': CALLER }, 'create')
  t.match(compile('projects', { access }), /begins with rows that refer to the new one/)
})

t.test('operations of a definition are checked too', async (t) => {
  const [, , { operations } = {}] = organizationResources
  const closings = operations?.closings
  if (!closings) throw new Error('Projects can be closed')
  const access: RoleRules = { member: [{ 'organisation.id': CALLER }] }
  const wrong = { closings: { ...closings, access } }
  t.match(compile('projects', { operations: wrong }), 'access to closings of member: "organisation.id" names')
})

t.test('each step needs an index, in both directions', async (t) => {
  const bare = pgTable('path_memberships', {
    ...common(),
    organization_id: uuid().notNull(),
    user_id: uuid().notNull(),
    role: text().$type<'owner' | 'member'>().notNull(),
  })
  const relink = (each: ResourceDefinition): ResourceDefinition => ({
    ...each,
    ...(each.name === 'memberships' && { table: bare }),
    relations: Object.fromEntries(
      Object.entries(each.relations).map(([name, relation]) => [
        name,
        relation.to === memberships ? { ...relation, to: bare } : relation,
      ]),
    ),
  })
  const found = compileAll(organizationResources.map(relink))
  const path = 'projects: access to list of member: "organization.memberships.user_id"'
  for (const column of ['organization_id', 'user_id'])
    t.match(found, `${path} needs an index of path_memberships that begins with "${column}"`)
  const unindexed = pgTable(
    'path_projects',
    {
      ...common(),
      organization_id: uuid().notNull(),
      lead_id: uuid(),
      code: text().notNull(),
      name: text().notNull(),
      status: text().$type<'open' | 'closed'>().notNull(),
    },
    (t) => [index('path_projects_created_at').on(t.created_at, t.id)],
  )
  const message = compile('projects', { table: unindexed, sorts: {}, filters: [], ranges: [] })
  t.match(message, 'needs an index of path_projects that begins with "organization_id"')
})
