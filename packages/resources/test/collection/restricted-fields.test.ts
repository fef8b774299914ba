/** A field that a role may not read does not exist for it, whatever way it asks; one that it may not write is 422. */
import t, { type Test } from 'tap'
import type { Violation } from '../../../api/src/errors/codes.ts'
import { formatAccessTables } from '../../../docs/src/openapi/access-tables.ts'
import { type Client, type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { openStream, type TestStream } from '../../../testing/helpers/events.ts'
import { createKeyHeader, getViolations, isReplayed } from '../../../testing/helpers/replies.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import { createUniqueName } from '../../../testing/helpers/versioned-client.ts'
import { createEndpoint, startReceiver } from '../../../testing/helpers/webhooks.ts'
import {
  getData,
  hiddenNames,
  inVersion,
  newVisible,
  openParts,
  SECRETS,
  served,
  versions,
} from './restricted-parts.ts'

const { admin, app, base, clients, database, newPart, people, person, sold } = await openParts(t)
const READERS = [
  ['manager', '/v2'],
  ['member', '/v1'],
  ['member', '/v2'],
] as const
const CSV = { 'content-type': 'text/csv' }
const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database, resources: served })

/** The ways to get a representation of a part. */
const WAYS: Record<string, [method: string, path: string, body?: (version: string) => Json]> = {
  list: ['GET', '/parts'],
  'list by page': ['GET', '/parts?page=1&sort=created_at'],
  read: ['GET', `/parts/${sold.id}`],
  'read with an include': ['GET', `/parts/${sold.id}?include=repairs`],
  'include of one row': ['GET', '/repairs?include=part'],
  create: ['POST', '/parts', (version) => inVersion(version, 'parts', newVisible())],
  update: ['PATCH', `/parts/${sold.id}`, (version) => inVersion(version, 'parts', newVisible())],
  replace: ['PUT', `/parts/${sold.id}`, (version) => inVersion(version, 'parts', newVisible())],
  'own operation': ['POST', `/parts/${sold.id}/inspections`, () => ({})],
  batch: [
    'POST',
    '/batches',
    () => ({ operations: [{ method: 'PATCH', path: `/parts/${sold.id}`, body: newVisible() }] }),
  ],
}

/** The ways to name a field in a query; those of the fields that an admin can name so. */
const QUERIES: Record<string, readonly string[]> = {
  '/parts?fields=NAME': ['grade', 'remark', 'code', 'cost', 'double_cost'],
  [`/parts/${sold.id}?fields=name,NAME`]: ['grade', 'remark', 'code', 'cost', 'double_cost'],
  '/parts?sort=NAME': ['grade', 'cost'],
  '/parts?sort=created_at,-NAME': ['grade', 'cost'],
  '/parts?NAME=NULL': ['grade', 'cost'],
  '/parts?NAME_not=NULL': ['grade'],
  '/parts?NAME_min=1': ['cost'],
  '/parts?NAME_max=1': ['cost'],
  '/parts?NAME_null=true': ['remark'],
  '/parts?NAME_prefix=1': [],
  '/repairs?part.NAME=NULL': ['grade', 'cost'],
  '/repairs?include=NAME': [],
}

/** The names of the fields, but not the member `code` of each violation. */
const NAMES = {
  manager: [/grade/, /remark/, /[ ,]code\b/],
  member: [/grade/, /remark/, /[ ,]code\b/, /cost/],
}

for (const [role, version] of READERS) {
  const client = clients[role]
  const isMember = role === 'member'
  const notIn = (t: Test, text: string, patterns: readonly RegExp[], place: string) => {
    for (const pattern of patterns) t.notMatch(text, pattern, place)
  }

  t.test(`${version}: no representation has a field that a ${role} may not read`, async (t) => {
    for (const [way, [method, path, getBody]] of Object.entries(WAYS)) {
      for (const accept of way === 'list' ? ['*/*', 'text/csv', 'application/x-ndjson'] : ['*/*']) {
        const options = { body: getBody?.(version), headers: { accept } }
        const reply = await client.call(method, version + path, options)
        t.ok(reply.status < 300, `${way} ${accept}: ${reply.status} ${reply.text.slice(0, 300)}`)
        t.match(reply.text, /kind|part_id/, `${way} ${accept}: the other fields`)
        notIn(t, reply.text, SECRETS[role], `${way} ${accept}`)
      }
    }
  })

  t.test(`${version}: what a ${role} may not read is as unknown as what does not exist`, async (t) => {
    const ask = async (query: string, field: string) => {
      const { status, text, body } = await client.get(version + query.replace('NAME', field))
      const violations: Violation[] = body.error.details ?? body.error.errors
      const found = violations.map((each) =>
        `${each.field}: ${each.message} ${each.code}`.replaceAll(field, 'NAME'),
      )
      return { status, text, found }
    }
    for (const [way, known] of Object.entries(QUERIES)) {
      const unknown = await ask(way, 'nope')
      t.equal(unknown.status, 400)
      notIn(t, unknown.text, NAMES[role], way)
      for (const name of hiddenNames[role]) {
        const query = way.replace('NULL', name === 'cost' ? '98765' : 'zeta')
        const { status, found } = await ask(query, name)
        t.same({ status, found }, { status: 400, found: unknown.found }, `${query} ${name}`)
        const path = version + query.replace('NAME', name)
        const isKnown = known.includes(name)
        t.equal((await admin.get(path)).status, isKnown ? 200 : 400, `${path} of an admin`)
        if (!isKnown || path.includes(sold.id)) continue
        t.equal((await client.get(path, { accept: 'text/csv' })).status, 400, `${path} as CSV`)
      }
    }
    t.same(
      getViolations(await client.get(`${version}/parts?limit=0&grade=zeta&x=1&fields=grade`)),
      ['fields INVALID_VALUE', 'grade UNKNOWN_PARAMETER', 'limit OUT_OF_RANGE', 'x UNKNOWN_PARAMETER'],
      'all violations together',
    )
    for (const field of ['code', 'nope']) {
      const path = `${version}/parts?on_conflict=${field}`
      const sent = await client.call('POST', path, { headers: CSV, body: 'serial,name\nS-1,Nut\n' })
      t.same([sent.status, getViolations(sent)], [400, ['on_conflict INVALID_VALUE']])
      notIn(t, sent.text.replaceAll(`"${field}"`, ''), NAMES[role], path)
    }
  })

  t.test(`${version}: a body with a field that a ${role} may not write is 422 READ_ONLY`, async (t) => {
    const part = await newPart()
    const before = await admin.get(`/v1/parts/${part.id}`)
    const stock: Json = isMember ? { stock: 9 } : {}
    const locked: Json = { cost: 98_765, grade: 'zeta', remark: 'x', code: 'x', ...stock }
    const all = Object.keys(locked).sort()
    // What the role may read, PUT may repeat.
    const readable = isMember ? 'stock' : 'cost'
    const only = isMember ? stock : { cost: 1 }
    const unread = all.filter((each) => each !== readable)
    const path = `${version}/parts/${part.id}`
    const send = (method: string, to: string, fields: Json) =>
      client.call(method, to, { body: inVersion(version, 'parts', { ...newVisible(), ...fields }) })
    const row = { ...newVisible(), ...locked }
    const operations = [{ method: 'POST', path: '/parts', body: row }]
    const text = `${Object.keys(row).join()}\n${Object.values(row).join()}\n`
    const inBody = version === '/v2' ? 'data.attributes.' : ''
    const ways: [way: string, sent: Promise<Reply>, fields: string[], prefix: string][] = [
      ['create', send('POST', `${version}/parts`, locked), all, inBody],
      ['update', send('PATCH', path, locked), all, inBody],
      ['replace', send('PUT', path, { ...locked, cost: 1, stock: 9 }), unread, inBody],
      ['replace of what it reads', send('PUT', path, only), [readable], inBody],
      ['batch', client.post(`${version}/batches`, { operations }), all, 'operations.0.body.'],
      ['import', client.call('POST', `${version}/parts`, { headers: CSV, body: text }), all, 'rows.1.'],
    ]
    for (const [way, sent, fields, prefix] of ways) {
      const reply = await sent
      const expected = fields.map((each) => `${prefix}${each} READ_ONLY`)
      t.same([reply.status, getViolations(reply)], [422, expected], way)
    }
    t.same((await admin.get(`/v1/parts/${part.id}`)).body.data, before.body.data)
  })

  t.test(
    `${version}: a ${role} may send what it has read; the rest is kept or has its default`,
    async (t) => {
      const part = await newPart({ stock: 77 })
      const path = `${version}/parts/${part.id}`
      const { id: _, ...read } = getData(await client.get(path))
      for (const sent of [read, { ...newVisible(), name: 'Gear' }]) {
        const reply = await client.put(path, inVersion(version, 'parts', sent))
        t.equal(reply.status, 200, reply.text)
      }
      const kept = { stock: 77, cost: 98_765, grade: 'zeta', remark: 'secretive', code: part.code }
      const { serial, ...now } = getData(await admin.get(`/v1/parts/${part.id}`))
      t.match(now, { ...kept, name: 'Gear' })
      const exported = await client.get(`${version}/parts?fields=serial,name,stock`, { accept: 'text/csv' })
      t.match(exported.text, /^id,serial,name,stock\r\n/)
      const body = `serial,name,stock\n${serial},Cog,77\n`
      const imported = await client.call('POST', `${version}/parts?on_conflict=serial`, {
        headers: CSV,
        body,
      })
      t.same([imported.status, imported.body.data], [200, { created: 0, updated: 1, unchanged: 0 }])
      t.match(getData(await admin.get(`/v1/parts/${part.id}`)), { ...kept, name: 'Cog' })

      const { id } = (await client.post('/v1/parts', newVisible())).body.data
      const defaults = { stock: 5, cost: 100, grade: 'alpha', remark: null, code: /^SECRET-/ }
      t.match(getData(await admin.get(`/v1/parts/${id}`)), defaults)
    },
  )

  t.test(`${version}: events of parts have no field that a ${role} may not read`, async (t) => {
    const open = (key: string) => {
      const path = `${version}/events?resource_type=parts`
      return openStream(t, { app, base }, { headers: { 'x-api-key': key }, path })
    }
    // Events of earlier tests may come first.
    const waitForDeletion = async (stream: TestStream) => {
      while (stream.events.at(-1)?.type !== 'parts.deleted')
        await stream.waitForEvents(stream.events.length + 1)
      return JSON.stringify(stream.events)
    }
    const [ofAdmin, ofRole] = [await open((await person('admin')).key), await open(people[role].key)]
    const part = await newPart({ owner_id: people[role].id })
    await admin.patch(`/v1/parts/${part.id}`, { cost: 987_650, grade: 'alpha', remark: 'secretive 2' })
    await admin.delete(`/v1/parts/${part.id}`)
    t.match(await waitForDeletion(ofAdmin), /"previous":\{[^}]*"grade":"zeta"/, 'an admin sees the change')
    const path = `${version}/events?resource_id=${part.id}`
    for (const text of [
      await waitForDeletion(ofRole),
      (await client.get(`${path}&sort=position`)).text,
      (await client.get(path, { accept: 'application/x-ndjson' })).text,
    ]) {
      t.match(text, /parts\.updated/)
      notIn(t, text, SECRETS[role], path)
    }
  })
}

t.test('a webhook has the fields that the owner of its endpoint may read now', async (t) => {
  const receivers = { manager: await startReceiver(t), admin: await startReceiver(t) }
  const fields = { event_types: ['parts.*'] }
  const owner = await person('admin')
  await createEndpoint(people.manager.bearer, receivers.manager.url, fields)
  const { id } = await createEndpoint(owner.bearer, receivers.admin.url, fields)
  await newPart()
  const [sent] = await receivers.manager.waitFor(1)
  const [whole] = await receivers.admin.waitFor(1)
  t.match(whole?.text, /zeta/, 'an admin has them')
  await admin.patch(`/v1/users/${owner.id}`, { role: 'manager' })
  const event_id = JSON.parse(whole?.text ?? '').data.id
  const again = await admin.post(`/v1/webhook-endpoints/${id}/deliveries`, { event_id })
  t.equal(again.status, 201, again.text)
  const repeated = (await receivers.admin.waitFor(2)).at(-1)
  for (const text of [sent?.text ?? '', repeated?.text ?? '']) {
    t.match(text, /98765/, 'a manager may read the cost')
    for (const pattern of SECRETS.manager) t.notMatch(text, pattern)
  }
})

t.test('a stream ends when its reader gets a role that sees less', async (t) => {
  const { id, key } = await person('admin')
  const path = '/v1/events?resource_type=parts'
  const stream = await openStream(t, { app, base }, { headers: { 'x-api-key': key }, path })
  await admin.patch(`/v1/users/${id}`, { role: 'manager' })
  await stream.waitForEnd()
  t.same(stream.events, [])
})

t.test('a cursor of another role needs its sort', async (t) => {
  await newPart()
  const { cursor } = (await admin.get('/v1/parts?sort=-grade&limit=1')).body.pagination
  const other = await clients.manager.get(`/v1/parts?limit=1&cursor=${cursor}`)
  t.same([other.status, other.body.error.code], [400, 'INVALID_CURSOR'])
})

t.test('a conflict does not name a field that the caller may not read', async (t) => {
  for (const version of versions) {
    const path = `/parts/${sold.id}/clones`
    const operations = [{ method: 'POST', path, body: {} }]
    for (const [client, to, body, expected] of [
      [admin, path, {}, ['code ALREADY_EXISTS']],
      [clients.member, path, {}, []],
      [clients.member, '/batches', { operations }, ['operations.0 INVALID_VALUE']],
    ] as const) {
      const reply = await client.post(version + to, body)
      t.same([reply.status, getViolations(reply)], [409, expected], reply.text)
      if (client !== admin) t.notMatch(reply.text, /The code|"code is|body\.code/)
    }
  }
})

t.test(
  'entity tags differ between roles that see a resource differently, and HEAD has those of GET',
  async (t) => {
    for (const path of [`/v1/parts/${sold.id}`, '/v2/parts', '/v1/repairs?include=part']) {
      const replies = await Promise.all(
        [admin, clients.manager, clients.member].map((client) => client.get(path)),
      )
      t.equal(new Set(replies.map(({ headers }) => headers.get('etag'))).size, 3, path)
      const head = await clients.member.call('HEAD', path)
      for (const header of ['etag', 'content-length', 'last-modified'])
        t.equal(head.headers.get(header), replies[2]?.headers.get(header), `${path} ${header}`)
    }
    const stale = (await admin.get(`/v1/parts/${sold.id}`)).headers.get('etag') ?? ''
    const reply = await clients.member.get(`/v1/parts/${sold.id}`, { 'if-none-match': stale })
    t.equal(reply.status, 200)
    const changed = await clients.member.patch(`/v1/parts/${sold.id}`, { name: 'A' }, { 'if-match': stale })
    t.equal(changed.status, 200, 'If-Match compares the revision alone')
  },
)

t.test('a stored response is not replayed to another role', async (t) => {
  const { id, client } = await person('admin')
  const single = createKeyHeader()
  const batch = createKeyHeader()
  const part = newVisible()
  const operations = [{ method: 'POST', path: '/parts', body: newVisible() }]
  const send = () => client.post('/v1/parts', part, single)
  const sendAll = () => client.post('/v1/batches', { operations }, batch)
  t.match((await send()).text, /grade/)
  t.match((await sendAll()).text, /grade/)
  t.same([isReplayed(await send()), isReplayed(await sendAll())], [true, true])
  await admin.patch(`/v1/users/${id}`, { role: 'manager' })
  for (const reply of [await send(), await sendAll()]) {
    t.same([reply.status, reply.body.error?.code], [422, 'IDEMPOTENCY_KEY_REUSED'])
  }
})

t.test(
  'an import says nothing of a row that the caller may not change, or of a field it may not read',
  async (t) => {
    const send = (client: Client, body: string, query = 'on_conflict=serial', headers = {}) =>
      client.call('POST', `/v1/tools?${query}`, { headers: { ...CSV, ...headers }, body })
    const serial = createUniqueName('serial')
    const { id } = (await admin.post('/v1/tools', { serial, stock: 77 })).body.data
    const pin = `pin,serial,owner_id\n1234,${createUniqueName('serial')},${people.member.id}\n`
    const byPin = 'on_conflict=pin&dry_run=true'
    for (const [text, query, status, violation] of [
      [`serial,stock\n${serial},77\n`, undefined, 422, 'rows.1.stock READ_ONLY'],
      [`serial,stock\n${serial},78\n`, undefined, 422, 'rows.1.stock READ_ONLY'],
      [`serial\n${serial}\n`, undefined, 422, 'rows.1 FORBIDDEN'],
      [pin, byPin, 400, 'on_conflict INVALID_VALUE'],
    ] as const) {
      const reply = await send(clients.member, text, query)
      t.same([reply.status, getViolations(reply)], [status, [violation]], text)
    }
    t.equal((await send(admin, pin, byPin)).status, 200)

    const hidden = await send(hiding.anybody, `serial\n${serial}\n`, undefined, {
      'x-api-key': people.member.key,
    })
    t.same([hidden.status, getViolations(hidden)], [422, ['rows.1 NOT_FOUND']])
    t.match(hidden.text, /There is no tool with this serial/)
    t.notMatch(hidden.text, id)
  },
)

t.test('the permission tables and the documents say who may read and write', async (t) => {
  t.match(formatAccessTables(toCollections(served)), /\| parts \| cost \| admin, manager \| admin \|/)
  const { paths, components } = (await admin.get('/openapi/v1.json')).body
  const { Part } = components.schemas
  t.equal(Part.properties.double_cost.description, 'Twice the cost. Read by: admin, manager')
  t.match(Part.properties.cost.description, /Read by: admin, manager\. Written by: admin/)
  t.notOk(Part.required.includes('cost'))
  t.ok(Part.required.includes('stock'))
  t.match(components.schemas.PartUpdate.properties.stock.description, /Written by: admin, manager/)
  t.match(JSON.stringify([paths['/api/v1/parts'], components.parameters]), /cost. Read by: admin, manager/)
  const described = JSON.stringify(components.parameters)
  for (const kind of ['null with `true`', 'none of these values']) {
    t.match(described, new RegExp(`${kind}[^"]*Read by: admin`))
  }
})
