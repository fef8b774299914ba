/** The feed is read by an index for each filter, at any depth, although the events of a type may all be old. */
import t from 'tap'
import type { Param } from '../../../database/src/client/index.ts'
import { type Client, type Json, testApp } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabase } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'

if (!SERVER) {
  t.plan(0, 'plans are looked at where DATABASE_URL names a server')
  process.exit(0)
}

const EVENTS = 40_000
const opened = await testDatabase(t)
let pages: [text: string, params: readonly Param[]][] = []
const database = intercept(opened, (text, params) => {
  if (text.includes('as candidates')) pages.push([text, params])
})
const { app, admin, person } = await testApp(t, {}, { database })
const member = await person('member')
// So that the first position exists.
await app.events.assignAll()
await stopEventWork(app)

const ACTOR = '00000000-0000-7000-8000-000000000001'
const OTHER = '00000000-0000-7000-8000-000000000002'
const PRODUCT = '00000000-0000-7000-8000-000000000003'

/** Nearly all events are changes of products. Those that the filters select are in the middle, far from both ends. */
await opened.run(
  `insert into events (position, type, resource_type, resource_id, revision, columns, credential, owner_id, actor_id)
   select 1000000 + n, case n % 4 when 0 then 'products.created' else 'products.updated' end, 'products',
     gen_random_uuid(), 1, '{}', 'system', null, case when n % 2 = 0 then gen_random_uuid() end
   from generate_series(1, ${EVENTS}) as n`,
)
await opened.run(
  `update events set type = (array['orders.created', 'orders.deleted', 'posts.updated'])[1 + position % 3],
     resource_type = (array['orders', 'orders', 'posts'])[1 + position % 3], owner_id = $1,
     resource_id = case when position % 2 = 0 then $2::uuid else gen_random_uuid() end,
     actor_id = (array[$3, $4])[1 + position % 2]::uuid
   where position between 1018000 and 1022000`,
  [member.id, PRODUCT, ACTOR, OTHER],
)
await opened.run(`update event_feed set last_position = ${1_000_000 + EVENTS}, removed_position = 1`)
await opened.run('vacuum analyze events')

/** Reads a page, and returns how many rows its statement reads, and the indexes. */
async function explainPage(client: Client, query: string): Promise<{ rows: number; indexes: string[] }> {
  pages = []
  const reply = await client.get(`/events?${query}`)
  const [page] = pages
  if (reply.status !== 200 || !page) throw new Error(reply.text)
  const plan = await opened.transaction(async (tx) => {
    await tx.run('set local plan_cache_mode = force_custom_plan')
    const [row] = await tx.run(`explain (analyze, timing off, format json) ${page[0]}`, page[1])
    return row?.['QUERY PLAN'] as Json
  })
  let rows = 0
  const indexes = new Set<string>()
  const walk = (node: Json) => {
    if (node['Relation Name'] === 'events') {
      rows += ((node['Rows Removed by Filter'] ?? 0) + node['Actual Rows']) * node['Actual Loops']
      indexes.add(node['Index Name'] ?? node['Relation Name'])
    }
    for (const each of node.Plans ?? []) walk(each)
  }
  walk((typeof plan === 'string' ? JSON.parse(plan) : plan)[0].Plan)
  return { rows, indexes: [...indexes] }
}

const LIMIT = 20
const { client: ordersKey } = await person('manager', ['events:read', 'orders:read'])

for (const [name, client, filter, index, values] of [
  ['a type', admin, 'type=orders.deleted', 'events_type', 1],
  ['types', admin, 'type=orders.deleted,posts.updated', 'events_type', 2],
  ['a common type', admin, 'type=products.updated', 'events_type', 1],
  ['a wildcard', admin, 'type=orders.*', 'events_type', 3],
  ['a resource type', admin, 'resource_type=orders', 'events_type', 3],
  ['types of one resource type', admin, 'resource_type=orders&type=orders.deleted,posts.*', 'events_type', 1],
  ['a resource', admin, `resource_id=${PRODUCT}`, 'events_resource_id', 1],
  ['resources', admin, `resource_id=${PRODUCT},${ACTOR}`, 'events_resource_id', 2],
  ['an actor', admin, `actor_id=${ACTOR}`, 'events_actor_id', 1],
  ['actors', admin, `actor_id=${ACTOR},${OTHER}`, 'events_actor_id', 2],
  ['an actor and a type', admin, `actor_id=${ACTOR}&type=orders.deleted`, 'events_actor_id', 4],
  ['a key that reads one resource', ordersKey, '', 'events_type', 6],
  ['a member', member.client, '', 'events_owner_id', 1],
] as const)
  t.test(`the feed of ${name} reads ${index}`, async (t) => {
    for (const sort of ['position', '-position']) {
      const first = `limit=${LIMIT}&sort=${sort}&${filter}`
      const { body } = await client.get(`/events?${first}`)
      t.ok(body.data.length > 0)
      for (const query of [first, `${first}&cursor=${body.pagination.cursor}`]) {
        const { rows, indexes } = await explainPage(client, query)
        t.ok(indexes.includes(index), `${query}: ${indexes}`)
        // The candidates of each value, the rows of the page, and those of the cursor and of the end of the feed.
        t.ok(rows <= (values + 1) * (LIMIT + 1) + 2, `${query}: reads ${rows} rows`)
      }
    }
  })
