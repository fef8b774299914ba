/**
 * Checks that each list answers each caller whatever is asked: each single field, each sort in both directions, each filter
 * and each other parameter, as a page, as CSV and as NDJSON. Rules with relations are other statements than those of staff.
 */
import type { CallerRole } from '@resource-api/api/actor'
import { buildExample } from '@resource-api/api/documents'
import { type Role, roles } from '@resource-api/database/roles'
import { buildListParameters, type Resource, toVersionView } from '@resource-api/resources/internal'
import { type CheckedApp, type CheckTest, restoreViews } from './check.ts'
import type { Client, Json, Reply } from './client.ts'

interface Query {
  name: string
  value: string
}

/** Returns one query for each value of parameters that name fields, and one with the example of each other parameter. */
function listQueries(parameters: Json): Query[] {
  return Object.entries<Json>(parameters.properties).flatMap(([name, schema]) => {
    const names: string[] | undefined = schema['x-documented']?.items.enum
    const values = names ?? [[buildExample(schema)].flat().join()]
    return values.map((value) => ({ name, value }))
  })
}

const toText = ({ name, value }: Query) => `${name}=${encodeURIComponent(value)}`

/**
 * @param callers with rows of their own
 * @param getListPath returns the path of a collection, below a parent of an owner
 */
export async function checkListQueries(
  t: CheckTest,
  { app, database, definitions, getReason, anybody }: CheckedApp,
  callers: Readonly<Record<Role, { id: string; bearer: Client }>>,
  getListPath: (name: string, owner: string) => Promise<string>,
): Promise<void> {
  const { version, mappings = {} } = app.versions[0]?.representation ?? {}
  const prefix = `/api/v${version}`
  const build = (resource: Resource) => listQueries(buildListParameters(toVersionView(resource, mappings)))
  await restoreViews({ app, database })

  /** Asks for a page, and for the page after its first row, whose statement has a condition for the position. */
  async function readTwice(by: Client, path: string, query: Query): Promise<Reply> {
    const isPart = query.name !== 'limit' && query.name !== 'cursor' && query.name !== 'page'
    const asked = `${path}?${toText(query)}${isPart ? '&limit=1' : ''}`
    const first = await by.get(asked)
    const cursor = first.status === 200 && isPart ? first.body.pagination?.cursor : undefined
    return cursor ? by.get(`${asked}&cursor=${encodeURIComponent(cursor)}`) : first
  }

  /** Returns the requests that a caller is answered with another status than expected. */
  async function findFailures(resource: Resource, role: CallerRole, by: Client, path: string) {
    const permitted = new Set(build(resource.forRole(role)).map(toText))
    const hasExports = role !== 'anonymous' && resource.streams === undefined
    const failures: string[] = []
    for (const [i, query] of build(resource).entries()) {
      // A field that the role may not read does not exist for it.
      const wanted = permitted.has(toText(query)) ? 200 : 400
      const replies: [asked: string, Reply][] = [['a page', await readTwice(by, path, query)]]
      if (hasExports && !['limit', 'cursor', 'page', 'include'].includes(query.name)) {
        const accept = i % 2 === 0 ? 'text/csv' : 'application/x-ndjson'
        replies.push([accept, await by.get(`${path}?${toText(query)}`, { accept })])
      }
      for (const [asked, { status, text }] of replies)
        if (status !== wanted)
          failures.push(`${toText(query)}, ${asked}: ${status} and not ${wanted}: ${text.slice(0, 200)}`)
    }
    return failures
  }

  for (const [name, { list }] of Object.entries(definitions.matrix)) {
    const resource = app.resources.find((each) => each.name === name)
    if (!resource || !list) continue
    await t.test(`${name}: a list can be asked in every way`, { skip: getReason(name) }, async (t) => {
      for (const role of roles) {
        if ((list[role] ?? 'none') === 'none') continue
        const { id, bearer } = callers[role]
        const path = `${prefix}${await getListPath(name, id)}`
        t.same(await findFailures(resource, role, bearer, path), [], `${role}: ${path}`)
      }
      if ((list.anonymous ?? 'none') === 'none') return
      const path = `${prefix}${await getListPath(name, callers.admin.id)}`
      t.same(await findFailures(resource, 'anonymous', anybody, path), [], `anonymous: ${path}`)
    })
  }
}
