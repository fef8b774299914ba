/** A list by a rule over relations reads the rows of its caller, however many rows others have. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { createOrganizations } from '../../../testing/helpers/organizations.ts'
import { fillProjects } from '../../../testing/helpers/project-rows.ts'
import { explain as explainStatement, recordStatements } from './plans.ts'

const ROWS = SERVER ? 1_000_000 : 50_000
const ORGANIZATIONS = ROWS / 100
/** PGlite may read the table of organizations as a whole, which is small there. */
const READ_WHOLE = SERVER ? 0 : ORGANIZATIONS
/** Rows that a page of 20 may read: of two organizations, 21 each, with their keys. */
const MAX_READ = 200 + READ_WHOLE
/** The organizations of a caller with many. Each has 100 rows. */
const MANY = SERVER ? 1_000 : 200

const { database: opened, resources } = await createOrganizations(t)
const { database, statements } = recordStatements(opened)
const { app, person } = await testApp(t, {}, { database, resources })
await stopEventWork(app)
const ada = await person('member')

await fillProjects(opened, { rows: ROWS, organizations: ORGANIZATIONS, userId: ada.id })

/** Returns the rows that the last statement reads, and its nodes; `generic`: planned without its values. */
async function explain(mode: 'custom' | 'generic') {
  const asked = statements.findLast(({ text }) => text.includes('path_projects'))
  if (!asked) throw new Error('There is no statement')
  const { read, removed, nodes } = await explainStatement(opened, asked, '', mode, 'whole')
  return { read: read + removed, nodes }
}

const paths = [
  '/projects',
  '/projects?status=open',
  '/projects?sort=created_at',
  '/projects?created_after=2026-01-01',
]
for (const path of paths)
  t.test(`${path} reads fewer than ${MAX_READ} of ${ROWS} rows`, async (t) => {
    const reply = await ada.client.get(path)
    t.equal(reply.body.data.length, 20)
    for (const mode of ['custom', 'generic'] as const) {
      const { read, nodes } = await explain(mode)
      t.ok(read < MAX_READ, `${mode}: ${read} rows: ${nodes}`)
    }
    const next = await ada.client.get(
      `${path}${path.includes('?') ? '&' : '?'}cursor=${reply.body.pagination.cursor}`,
    )
    t.equal(next.body.data.length, 20)
    const { read, nodes } = await explain('generic')
    t.ok(read < MAX_READ, `second page: ${read} rows: ${nodes}`)
  })

t.test('one row is read with the rows of its path', async (t) => {
  const { body } = await ada.client.get('/projects?limit=1')
  t.equal((await ada.client.get(`/projects/${body.data[0].id}`)).status, 200)
  const { read, nodes } = await explain('generic')
  t.ok(read <= 3, `${read} rows: ${nodes}`)
})

t.test('a total is counted from the caller', async (t) => {
  const { body } = await ada.client.get('/projects?page=1')
  t.equal(body.pagination.total, 200)
  const { read, nodes } = await explain('generic')
  t.ok(read < 1_000 + 2 * READ_WHOLE, `${read} rows: ${nodes}`)
})

t.test(`a member of ${MANY} organizations reads a page of each, however many rows these have`, async (t) => {
  const max = await person('member')
  await opened.run(
    `insert into path_memberships (id, organization_id, user_id, role)
     select gen_random_uuid(), id, $1, 'member' from path_organizations order by name limit ${MANY}`,
    [max.id],
  )
  await opened.run('analyze path_memberships')
  t.equal((await max.client.get('/projects')).body.data.length, 20)
  const { read, nodes } = await explain('generic')
  // Each membership with the rows of a page and one more, and at most all organizations.
  t.ok(read <= MANY * (1 + 21) + ORGANIZATIONS, `${read} rows: ${nodes}`)
})
