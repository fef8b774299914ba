/** The schemas that `resource-api new` writes for every type of field can be read by programs in other languages. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findKeyword } from '../../../scripts/test/regular-expressions.ts'
import { resources } from '../../../src/resources.ts'
import { connectAgent, MCP } from '../../docs/test/mcp/agent.ts'
import { type Json, testApp } from '../../testing/helpers/app.ts'
import { testDatabase } from '../../testing/helpers/database.ts'
import { getViolations } from '../../testing/helpers/replies.ts'
import { createTable } from '../../testing/helpers/rows.ts'
import { readApplication } from '../src/new/application.ts'
import { buildPlan } from '../src/new/plan.ts'
import { renderFiles } from '../src/new/render.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Writes a resource with every type of field below the repository, where its imports are found, and loads it. */
async function loadResource() {
  const application = await readApplication(root)
  const { plan, problems } = buildPlan(
    {
      name: 'teas',
      fields: `label:text, note:multiline, tags:texts, count:integer(0..9), price:money, amount:decimal(10,2),
        rate:decimal(3,3), whole:decimal(5,0)?, size:enum(small|large), is_open:boolean, day:date, opens:time,
        begins_at:timestamp, last_day:date?, seen_at:timestamp?, contact:email, site:url, code:uuid`,
      filters: 'amount,rate,count,size',
      sorts: 'amount,rate,day,begins_at',
      aggregates: 'amount,day,begins_at',
    },
    application.resources,
  )
  if (!plan) throw new Error(JSON.stringify(problems))
  const folder = t.testdir({ src: { 'own.ts': readFileSync(`${root}src/own.ts`, 'utf8') } })
  for (const { path, text } of renderFiles(folder, plan, application.names)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  const { default: resource } = await import(join(folder, 'plugins/teas.ts'))
  return resource
}

const teas = await loadResource()
const database = await testDatabase(t)
await createTable(database, teas.collection.table)
const app = await testApp(t, MCP, { database, resources: [...resources, teas] })
const { admin, person } = app

t.test('no pattern of a document or of a tool has a look-around', async (t) => {
  const agent = await connectAgent(t, app, { 'x-api-key': (await person('admin')).key })
  const { tools } = await agent.client.listTools()
  const documents = await Promise.all([1, 2].map(async (v) => (await admin.get(`/openapi/v${v}.json`)).body))
  for (const document of [...documents, tools]) {
    const patterns = findKeyword(document, 'pattern')
    t.ok(
      patterns.filter(({ path }) => /tea/i.test(path) || document === tools).length > 20,
      'they were found',
    )
    t.same(
      patterns.filter(({ value }) => /\(\?(?:[=!]|<[=!])/.test(value)),
      [],
    )
  }
})

t.test('what PostgreSQL does not store, or writes as another text, is refused', async (t) => {
  const [example] = teas.collection.schemas.create.examples
  const create = (change: Json) => admin.post('/teas', { ...example, ...change })
  for (const [field, accepted, refused] of [
    [
      'day',
      ['0001-01-01', '0010-01-01', '0100-01-01', '1000-01-01', '9999-12-31'],
      ['0000-12-31', '2026-02-30'],
    ],
    ['last_day', ['0001-12-31'], ['0000-01-01']],
    ['begins_at', ['0001-01-02T00:00:00Z', '2000-01-01T00:00:00Z'], ['0000-06-01T00:00:00Z']],
    ['amount', ['0.00', '-0.01', '-10.00', '-12345678.90'], ['-0.00', '-00.01', '1.5', '1.000', '+1.00']],
    ['rate', ['0.000', '-0.100'], ['-0.000', '1.000']],
    ['whole', ['0', '-1', '-10'], ['-0', '-01', '00']],
  ] as const) {
    for (const value of accepted)
      t.equal((await create({ [field]: value })).status, 201, `${field}: ${value}`)
    for (const value of refused)
      t.same(
        getViolations(await create({ [field]: value })),
        [`${field} INVALID_FORMAT`],
        `${field}: ${value}`,
      )
  }
  t.same(getViolations(await admin.get('/teas?amount=-0.00')), ['amount INVALID_FORMAT'])
  t.same(getViolations(await admin.get('/teas?day_min=0000-01-01')), ['day_min INVALID_FORMAT'])
})
