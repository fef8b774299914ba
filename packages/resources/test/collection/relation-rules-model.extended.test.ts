/** Any rule over relations permits the rows that a model in memory permits: lists, totals, reads, writes, includes, events. */
import fc from 'fast-check'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { resources as registered } from '../../../../src/resources.ts'
import { type Actor, ANONYMOUS_ACTOR } from '../../../api/src/actor/actor.ts'
import { CALLER, type Condition, NOT_NULL } from '../../../api/src/rules/rules.ts'
import { EventDecisions, listRelated } from '../../../events/src/events/decisions.ts'
import {
  createOrganizations,
  memberships,
  organizationResources,
  STATES,
} from '../../../testing/helpers/organizations.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import { compileResources } from '../../src/compile.ts'
import type { ListQuery } from '../../src/definition/query.ts'
import { isPermitted } from '../../src/operations/context.ts'

const RUNS = 40
const USERS = 3
const ORGANIZATIONS = 3
const PROJECTS = 10

const { database } = await createOrganizations(t)
const users = await insertRows(database, 'users', Array(USERS).fill({}))

type Fields = Record<string, string | null>

/** The rows of all tables. */
interface World {
  organizations: Fields[]
  memberships: Fields[]
  projects: Fields[]
  tasks: Fields[]
}

/** The relations, as the model follows them. */
const relations: Record<string, Record<string, [to: keyof World, local: string, foreign: string]>> = {
  projects: {
    organization: ['organizations', 'organization_id', 'id'],
    tasks: ['tasks', 'id', 'project_id'],
  },
  organizations: {
    memberships: ['memberships', 'id', 'organization_id'],
    projects: ['projects', 'id', 'organization_id'],
  },
  memberships: { organization: ['organizations', 'organization_id', 'id'] },
  tasks: { project: ['projects', 'project_id', 'id'] },
}

/** The names of a condition with their values. */
const names: [string, Condition[string]][] = [
  ['status', 'open'],
  ['lead_id', CALLER],
  ['organization.memberships.user_id', CALLER],
  ['organization.memberships.role', 'owner'],
  ['organization.memberships.role', 'member'],
  ['organization.name', 'a'],
  ['tasks.project.lead_id', NOT_NULL],
  ['organization.projects.lead_id', CALLER],
  ['organization.projects.status', 'closed'],
  ['organization.memberships.organization.name', 'b'],
  ['tasks.name', 'x'],
  ['tasks.project.status', 'open'],
  ['tasks.project.lead_id', CALLER],
]

/** Returns whether the entries of a condition, relative to a table, hold for a row. */
function holds(
  world: World,
  table: string,
  row: Fields,
  entries: [string, Condition[string]][],
  caller: string,
) {
  const branches = new Map<string, [string, Condition[string]][]>()
  for (const [name, wanted] of entries) {
    const [first = '', ...rest] = name.split('.')
    if (rest.length === 0) {
      const value = row[first]
      if (wanted === NOT_NULL ? value === null : value !== (wanted === CALLER ? caller : wanted)) return false
    } else branches.set(first, [...(branches.get(first) ?? []), [rest.join('.'), wanted]])
  }
  for (const [relation, others] of branches) {
    const [to, local, foreign] = relations[table]?.[relation] ?? ['projects', '', '']
    const related = world[to].filter((each) => row[local] !== null && each[foreign] === row[local])
    if (!related.some((each): boolean => holds(world, to, each, others, caller))) return false
  }
  return true
}

const user = fc.constantFrom(...users)
const place = fc.nat(ORGANIZATIONS - 1)
const world = fc
  .record({
    names: fc.array(fc.constantFrom('a', 'b'), { minLength: ORGANIZATIONS, maxLength: ORGANIZATIONS }),
    members: fc.uniqueArray(fc.record({ place, user, role: fc.constantFrom('owner', 'member') }), {
      maxLength: 6,
      selector: (each) => `${each.place}${each.user}`,
    }),
    projects: fc.array(fc.record({ place, lead: fc.option(user), status: fc.constantFrom(...STATES) }), {
      minLength: PROJECTS,
      maxLength: PROJECTS,
    }),
    tasks: fc.array(fc.record({ project: fc.nat(PROJECTS - 1), name: fc.constantFrom('x', 'y') }), {
      maxLength: 6,
    }),
  })
  .map((given): World => {
    const organizations = given.names.map((name) => ({ id: uuid(), name }))
    const getId = (i: number, rows: { id: string }[]) => rows[i]?.id ?? ''
    const projects = given.projects.map(({ place: i, lead: lead_id, status }) => {
      const id = uuid()
      return { id, organization_id: getId(i, organizations), lead_id, status, code: id, name: 'Project' }
    })
    return {
      organizations,
      projects,
      memberships: given.members.map(({ place: i, user: user_id, role }) => ({
        ...{ id: uuid(), user_id, role },
        organization_id: getId(i, organizations),
      })),
      tasks: given.tasks.map(({ project, name }) => ({
        id: uuid(),
        project_id: getId(project, projects),
        name,
      })),
    }
  })

const condition = fc
  .uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 3, selector: ([name]) => name })
  .map((entries): Condition => Object.fromEntries(entries))
const rule = fc.array(condition, { minLength: 1, maxLength: 3 })

const toQuery = (page: number | undefined): ListQuery => ({
  ...{ fields: undefined, include: [], requires: [], filters: {}, bounds: [], conditions: [], words: [] },
  ...{ sorts: [{ name: 'created_at', descending: true }], limit: 100, page, cursor: undefined, identity: '' },
})

async function insertWorld(rows: World) {
  await database.run('delete from path_organizations')
  await insertRows(database, 'path_organizations', rows.organizations)
  await insertRows(database, 'path_memberships', rows.memberships)
  await insertRows(database, 'path_projects', rows.projects)
  await insertRows(database, 'path_tasks', rows.tasks)
}

// The rows of a world are created at one time, so that lists have the order of their ids.
const getRowIds = (rows: readonly Record<string, unknown>[]) => rows.map(({ id }) => String(id))
const sortIds = (rows: readonly Record<string, unknown>[]) => getRowIds(rows).sort()

t.test('rules over relations are those of the model', async (t) => {
  let combinations = 0
  await fc.assert(
    fc.asyncProperty(world, rule, place, async (rows, list, target) => {
      await insertWorld(rows)
      const all = { member: list }
      const access = { list: all, read: all, update: all }
      const definitions = toCollections(organizationResources).map((each) =>
        each.name === 'projects' ? { ...each, access, operations: {} } : each,
      )
      const compiled = compileResources([...toCollections(registered), ...definitions])
      const find = (name: string) => {
        const resource = compiled.find((each) => each.name === name)
        if (!resource) throw new Error(`There is no resource ${name}`)
        return resource
      }
      const [projects, organizations] = [find('projects'), find('organizations')]
      const relation = organizations.relations.projects
      if (!relation) throw new Error('Organizations have projects')
      const codes = rows.projects.map(({ code }) => code ?? '')
      const everyRow = { rule: true, actor: ANONYMOUS_ACTOR, parent: undefined }
      const stored = await projects.select.lockByValues(database, 'code', codes, everyRow)
      const moved = stored.map((row) => ({
        ...row,
        organization_id: rows.organizations[target]?.id ?? null,
      }))
      const events = stored.map((row, i) => ({
        resource_type: 'projects',
        columns: row,
        previous: moved[i] ?? null,
      }))

      for (const userId of users) {
        const actor: Actor = { ...ANONYMOUS_ACTOR, userId, role: 'member', credential: 'token' }
        const scope = { rule: list, actor }
        const isAllowed = (row: Record<string, unknown>) =>
          // Rows have texts and null alone in the columns that the model compares.
          list.some((each) => holds(rows, 'projects', row as Fields, Object.entries(each), userId))
        const expected = stored.filter(isAllowed)
        const page = { ...scope, parent: undefined, position: undefined, size: 101 }
        const listed = await projects.select.page(database, toQuery(undefined), page)
        const newest = sortIds(expected).reverse()
        t.same(getRowIds(listed.rows), newest, 'list, in order')
        const counted = await projects.select.page(database, toQuery(1), page)
        t.same([counted.total, getRowIds(counted.rows)], [expected.length, newest], 'page and total')
        const locked = await projects.select.lockByValues(database, 'code', codes, page)
        t.same(sortIds(locked), sortIds(expected), 'write')
        const permitted: typeof moved = []
        for (const row of moved) if (await isPermitted(projects, database, row, scope)) permitted.push(row)
        t.same(sortIds(permitted), sortIds(moved.filter(isAllowed)), 'the row as it becomes')
        const keys = rows.organizations.map(({ id }) => id ?? '')
        const related = await projects.select.related(database, relation, keys, {
          ...scope,
          limit: 100,
          maxBytes: 1e6,
        })
        t.same(sortIds(related), sortIds(expected), 'include')
        for (const row of stored) {
          const read = await projects.select.one(database, row.id, { rule: list, actor })
          const isRead = read?.is_allowed ?? (read && (await isPermitted(projects, database, row, scope)))
          t.equal(isRead, expected.includes(row), 'read')
          combinations += 1
        }
        const reader = { rules: new Map([['projects', list]]), actor }
        const decisions = new EventDecisions(listRelated(compiled))
        await decisions.add(database, [reader], events)
        t.same(
          sortIds(events.filter((each) => decisions.canRead(reader, each)).map(({ columns }) => columns)),
          sortIds(expected),
          'events',
        )
        t.same(
          events
            .filter((each) => decisions.hideUnreadable(reader, each) === each)
            .map(({ previous }) => previous?.id),
          moved.filter(isAllowed).map(({ id }) => id),
          'former values',
        )
      }
    }),
    { numRuns: RUNS },
  )
  t.equal(combinations, RUNS * USERS * PROJECTS)
})

t.test('rows that have expired permit nothing', async (t) => {
  const [organization_id = ''] = await insertRows(database, 'path_organizations', [{ name: 'a' }])
  const [user_id = '', other = ''] = users
  const membership = { organization_id, role: 'member' }
  await insertRows(database, 'path_memberships', [
    { ...membership, user_id, updated_at: '2000-01-01T00:00:00Z' },
    { ...membership, user_id: other, updated_at: '2999-01-01T00:00:00Z' },
  ])
  const definitions = toCollections(organizationResources).map((each) =>
    each.name === 'memberships' ? { ...each, expiry: memberships.updated_at } : each,
  )
  const projects = compileResources([...toCollections(registered), ...definitions]).find(
    ({ name }) => name === 'projects',
  )
  const list = [{ 'organization.memberships.user_id': CALLER }] as const
  const found = await projects?.select.findPermitted(database, list, [{ organization_id }], [user_id, other])
  t.same(found, [{ row: 0, caller: 1 }])
})
