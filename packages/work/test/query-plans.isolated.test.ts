/** The statements that find and claim work read an index, whatever waits: only the rows that they return. */
import t from 'tap'
import type { Param } from '../../database/src/client/index.ts'
import { enabledEndpoints } from '../../events/src/webhooks/endpoint-store.ts'
import { testDatabase } from '../../testing/helpers/database.ts'
import { intercept } from '../../testing/helpers/statements.ts'
import type { WorkKind } from '../src/kinds.ts'
import { createSlots, NO_GROUP } from '../src/slots.ts'
import { claimNow, claimWork, createDueReader } from '../src/work-store.ts'

const ENDPOINTS = 50

const database = await testDatabase(t)
await database.run(
  `insert into users (id, name, email, role) values (gen_random_uuid(), 'Owner', 'owner@example.com', 'admin')`,
)
await database.run(
  `insert into webhook_endpoints (id, user_id, url, event_types, api_version, secret_box)
   select gen_random_uuid(), users.id, 'https://example.com', '["*"]', 1, 'x' from users, generate_series(1, $1::int)`,
  [ENDPOINTS],
)
// Many deliveries that wait or are done, many mails that are due, and one piece of other work.
await database.run(
  `insert into work (kind, endpoint_id, user_id, event_id, event_type, status, next_attempt_at)
   select 'delivery', e.id, e.user_id, gen_random_uuid(), 'products.created',
     case when i % 2 = 0 then 'succeeded' else 'pending' end, case when i % 2 = 1 then now() - i * interval '1 second' end
   from webhook_endpoints e, generate_series(1, 400) as i`,
)
await database.run(
  `insert into work (kind, next_attempt_at) select 'mail', now() - i * interval '1 second' from generate_series(1, 20000) as i`,
)
await database.run(`insert into work (kind) values ('work:ship')`)
await database.run(`insert into work (kind, key) values ('job:nightly', 'nightly')`)
await database.run('vacuum analyze work')
await database.run('analyze webhook_endpoints')

const sent: { text: string; params: readonly Param[] }[] = []
const recorded = intercept(database, (text, params) => void sent.push({ text, params }))

const createKind = (name: string): WorkKind => ({
  ...{ name, slots: createSlots(5), timeoutMs: 1_000 },
  run: async () => ({ status: 'pending' }),
  fail: () => ({ status: 'pending' }),
})
const delivery = { ...createKind('delivery'), groups: enabledEndpoints }
const [mail, ship] = [createKind('mail'), createKind('work:ship')] as const

type Plan = {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  Plans?: Plan[]
  'Actual Rows': number
  'Actual Loops': number
}

/** Explains the last statement, as PostgreSQL plans it without its values. @returns its nodes that read work */
async function explain(): Promise<Plan[]> {
  const { text = '', params = [] } = sent.at(-1) ?? {}
  const plans = await database.transaction(async (tx) => {
    await tx.run(`set local plan_cache_mode = 'force_generic_plan'`)
    const rows = await tx.run(`explain (analyze, format json) ${text}`, [...params])
    await tx.run('set local plan_cache_mode = auto')
    return rows
  })
  const [first] = Object.values(plans[0] ?? {})
  const [{ Plan: root }] = typeof first === 'string' ? JSON.parse(first) : Object(first)
  const list = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(list)]
  return list(root).filter(
    (plan) => plan['Relation Name'] === 'work' || plan['Index Name']?.startsWith('work'),
  )
}

t.test('one row of each kind and endpoint is read to find what is due', async (t) => {
  const due = await createDueReader([delivery, mail, ship])(recorded, 1_000)
  t.equal(due.length, ENDPOINTS + 2)
  const nodes = await explain()
  t.same(new Set(nodes.map((node) => node['Index Name'])), new Set(['work_due']))
  for (const node of nodes) t.equal(node['Actual Rows'], 1)
})

t.test('a claim reads as many rows as it returns, of each kind and endpoint', async (t) => {
  const [endpoint] = await database.run('select id from webhook_endpoints limit 1')
  const claimed = await claimWork(recorded, [
    { kind: mail, id: NO_GROUP, count: 5 },
    { kind: ship, id: NO_GROUP, count: 5 },
    { kind: delivery, id: String(endpoint?.id), count: 3 },
  ])
  t.equal(claimed.length, 9)
  const nodes = await explain()
  t.ok(nodes.some((node) => node['Index Name'] === 'work_due'))
  for (const node of nodes) {
    t.notMatch(node['Node Type'], 'Seq Scan')
    t.ok(node['Actual Rows'] <= 9, JSON.stringify(node))
  }
})

t.test('the claim of the row of a kind reads no other rows', async (t) => {
  t.ok(await claimNow(recorded, createKind('job:nightly')))
  const nodes = await explain()
  t.ok(nodes.length > 0)
  for (const node of nodes) {
    t.notMatch(node['Node Type'], 'Seq Scan')
    t.ok(node['Actual Rows'] <= 1, JSON.stringify(node))
  }
})
