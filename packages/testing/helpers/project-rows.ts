/** Many projects of many organizations, of which a user sees those of two: for plans and measurements. */
import type { Database } from '../../database/src/client/index.ts'
import { organizationIndexes } from './organizations.ts'

/** Rows of one statement, since a statement may take only some seconds. */
const PART = 25_000

interface ProjectRows {
  rows: number
  organizations: number
  /** The user, who is a member of two organizations. */
  userId: string
}

/** Fills the tables of `createOrganizations`, and creates their indexes. Each other user is in two organizations, too. */
export async function fillProjects(
  database: Database,
  { rows, organizations, userId }: ProjectRows,
): Promise<void> {
  for (const statement of organizationIndexes) await database.run(statement)
  await database.run(`insert into path_organizations (id, name)
    select gen_random_uuid(), 'Organization ' || n from generate_series(1, ${organizations}) n`)
  await database.run(`insert into users (id, name, email, role, search)
    select gen_random_uuid(), 'User ' || n, n || '@example.com', 'member', '' from generate_series(1, ${organizations / 2}) n`)
  await database.run(`insert into path_memberships (id, organization_id, user_id, role)
    select gen_random_uuid(), o.id, u.id, 'member'
    from (select id, row_number() over () as n from path_organizations) o
    join (select id, row_number() over () as n from users) u on u.n = o.n / 2 where u.id <> '${userId}'`)
  await database.run(`insert into path_memberships (id, organization_id, user_id, role)
    select gen_random_uuid(), id, '${userId}', 'member' from path_organizations where name in ('Organization 7', 'Organization 70')`)
  const moment = `timestamptz '2026-01-01' + n * interval '1 second'`
  for (let first = 1; first <= rows; first += PART)
    await database.run(`insert into path_projects (id, organization_id, code, name, status, created_at, updated_at)
      select gen_random_uuid(), o.ids[1 + n % ${organizations}], n, 'Project ' || n, 'open', ${moment}, ${moment}
      from (select array_agg(id) ids from path_organizations) o, generate_series(${first}, ${first + PART - 1}) n`)
  await database.run('analyze')
}
