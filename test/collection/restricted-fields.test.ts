/** A field that a role may not read does not exist for it, whatever way it asks; one that it may not write is 422. */
import { type TProperties, Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { check, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, integer, text } from '../../drizzle/columns.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { formatAccessTables } from '../../plugins/openapi/access-tables.ts'
import { Id } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { type Client, type Json, type Reply, testApp } from '../helpers/app.ts'
import { openStream, type TestStream } from '../helpers/events.ts'
import { createKeyHeader, getViolations, isReplayed } from '../helpers/replies.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'
import { createEndpoint, startReceiver } from '../helpers/webhooks.ts'
import { define } from './adopted.ts'
import {
  admins,
  getData,
  hiddenNames,
  inVersion,
  newVisible,
  openParts,
  parts,
  partsResource,
  repairsResource,
  SECRETS,
  served,
  staff,
  toPublic,
  versions,
  writable,
} from './restricted-parts.ts'

const { admin, app, base, clients, database, newPart, people, person, sold } = await openParts(t)

/** Events of earlier tests may come first. */
const waitForDeletion = async (stream: TestStream) => {
  while (stream.events.at(-1)?.type !== 'parts.deleted') await stream.waitForEvents(stream.events.length + 1)
}

/** The ways to get a representation of a part, of its row or of its events. */
const WAYS: Record<string, (client: Client, version: string) => Promise<Reply>> = {
  list: (client, version) => client.get(`${version}/parts`),
  'list by page': (client, version) => client.get(`${version}/parts?page=1&sort=created_at`),
  read: (client, version) => client.get(`${version}/parts/${sold.id}`),
  'read with an include': (client, version) => client.get(`${version}/parts/${sold.id}?include=repairs`),
  'include of one row': (client, version) => client.get(`${version}/repairs?include=part`),
  'export as NDJSON': (client, version) => client.get(`${version}/parts`, { accept: 'application/x-ndjson' }),
  'export as CSV': (client, version) => client.get(`${version}/parts`, { accept: 'text/csv' }),
  create: (client, version) => client.post(`${version}/parts`, inVersion(version, 'parts', newVisible())),
  update: (client, version) =>
    client.patch(
      `${version}/parts/${sold.id}`,
      inVersion(version, 'parts', { name: createUniqueName('name') }),
    ),
  replace: (client, version) =>
    client.put(`${version}/parts/${sold.id}`, inVersion(version, 'parts', { ...newVisible() })),
  'own operation': (client, version) => client.post(`${version}/parts/${sold.id}/inspections`, {}),
  batch: (client, version) =>
    client.post(`${version}/batches`, {
      operations: [
        { method: 'POST', path: '/parts', body: newVisible() },
        { method: 'PATCH', path: `/parts/${sold.id}`, body: { name: createUniqueName('name') } },
      ],
    }),
}

for (const [role, client] of Object.entries(clients)) {
  const name = role as keyof typeof clients
  t.test(`no representation has a field that a ${role} may not read`, async (t) => {
    for (const version of versions) {
      for (const [way, ask] of Object.entries(WAYS)) {
        const reply = await ask(client, version)
        t.ok(reply.status < 300, `${version} ${way}: ${reply.status} ${reply.text.slice(0, 300)}`)
        t.match(reply.text, /kind|part_id/, `${version} ${way}: the other fields`)
        for (const pattern of SECRETS[name]) t.notMatch(reply.text, pattern, `${version} ${way}`)
      }
    }
  })

  t.test(`a query that names a field that a ${role} may not read is 400`, async (t) => {
    for (const version of versions) {
      const hidden = hiddenNames[name].map((each) => toPublic(each, version))
      const queries = [
        ...hidden.map((each) => `/parts?fields=name,${each}`),
        ...hidden.map((each) => `/parts/${sold.id}?fields=${each}`),
        '/parts?sort=-grade',
        '/parts?sort=created_at,grade',
        '/parts?grade=zeta',
        '/parts?grade_not=zeta',
        '/parts?remark_null=false',
        '/repairs?part.grade=zeta',
        ...(name === 'member'
          ? [
              `/parts?${toPublic('cost', version)}=98765`,
              `/parts?${toPublic('cost', version)}_min=98765`,
              `/parts?${toPublic('cost', version)}_max=98765`,
              `/parts?sort=${toPublic('cost', version)}`,
              `/repairs?part.${toPublic('cost', version)}=98765`,
            ]
          : []),
      ]
      for (const query of queries) {
        for (const accept of query.startsWith('/parts/') ? ['*/*'] : ['*/*', 'text/csv']) {
          const reply = await client.get(`${version}${query}`, { accept })
          t.equal(reply.status, 400, `${version}${query} ${reply.text}`)
          t.equal((await admin.get(`${version}${query}`, { accept })).status, 200, `${query} of an admin`)
        }
      }
      const many = await client.get(`${version}/parts?limit=0&grade=zeta&x=1&fields=grade`)
      t.same(
        getViolations(many),
        ['fields INVALID_VALUE', 'grade UNKNOWN_PARAMETER', 'limit OUT_OF_RANGE', 'x UNKNOWN_PARAMETER'],
        'all violations together',
      )
      const csv = { 'content-type': 'text/csv' }
      const sent = await client.call('POST', `${version}/parts?on_conflict=code`, {
        headers: csv,
        body: 'serial,name\nS-1,Nut\n',
      })
      t.same([sent.status, getViolations(sent)], [400, ['on_conflict INVALID_VALUE']])
    }
  })

  t.test(`a body with a field that a ${role} may not write is 422 READ_ONLY`, async (t) => {
    const part = await newPart()
    const before = await admin.get(`/v1/parts/${part.id}`)
    for (const version of versions) {
      const prefix = version === '/v2' ? 'data.attributes.' : ''
      const cost = toPublic('cost', version)
      const locked: Json = { [cost]: 98_765, grade: 'zeta', remark: 'secretive', code: 'x' }
      if (name === 'member') locked.stock = 9
      const expected = Object.keys(locked).sort()
      const body = inVersion(version, 'parts', { ...newVisible(), ...locked })
      const bodies: [string, Reply, string[]][] = [
        ['create', await client.post(`${version}/parts`, body), expected],
        ['update', await client.patch(`${version}/parts/${part.id}`, body), expected],
      ]
      for (const [way, reply, fields] of bodies) {
        t.same(
          [reply.status, getViolations(reply)],
          [422, fields.map((each) => `${prefix}${each} READ_ONLY`)],
          `${version} ${way}`,
        )
      }
      // What the role may read, PUT may repeat.
      const readable = name === 'member' ? ['stock'] : [cost]
      const changed: Json = { ...locked, [cost]: 1, stock: 9 }
      const replaced = await client.put(
        `${version}/parts/${part.id}`,
        inVersion(version, 'parts', { ...newVisible(), ...changed }),
      )
      t.same(
        [replaced.status, getViolations(replaced)],
        [
          422,
          expected.filter((each) => !readable.includes(each)).map((each) => `${prefix}${each} READ_ONLY`),
        ],
        `${version} replace`,
      )
      const only = await client.put(
        `${version}/parts/${part.id}`,
        inVersion(version, 'parts', {
          ...newVisible(),
          ...(name === 'member' ? { stock: 9 } : { [cost]: 1 }),
        }),
      )
      t.same(
        [only.status, getViolations(only)],
        [422, readable.map((each) => `${prefix}${each} READ_ONLY`)],
        `${version} replace of what it reads`,
      )
      const batch = await client.post(`${version}/batches`, {
        operations: [{ method: 'POST', path: '/parts', body: { ...newVisible(), ...locked } }],
      })
      t.same(
        [batch.status, getViolations(batch)],
        [422, expected.map((each) => `operations.0.body.${each} READ_ONLY`)],
      )
      const columns = [...Object.keys(newVisible()), ...Object.keys(locked)]
      const values = [...Object.values(newVisible()), ...Object.values(locked)]
      const rows = await client.call('POST', `${version}/parts`, {
        headers: { 'content-type': 'text/csv' },
        body: `${columns.join()}\n${values.join()}\n`,
      })
      t.same(
        [rows.status, getViolations(rows)],
        [422, expected.map((each) => `rows.1.${each} READ_ONLY`)],
        `${version} import`,
      )
    }
    t.same((await admin.get(`/v1/parts/${part.id}`)).body.data, before.body.data)
  })

  t.test(`PUT keeps what a ${role} may not write, and accepts what it has read`, async (t) => {
    for (const version of versions) {
      const part = await newPart({ stock: 77 })
      const read = getData(await client.get(`${version}/parts/${part.id}`))
      const { id: _, ...sent } = read
      const path = `${version}/parts/${part.id}`
      const same = await client.put(path, inVersion(version, 'parts', sent))
      t.equal(same.status, 200, same.text)
      const absent = await client.put(path, inVersion(version, 'parts', { ...newVisible(), name: 'Gear' }))
      t.equal(absent.status, 200, absent.text)
      const {
        stock,
        cost,
        grade,
        remark,
        code: kept,
        name: changed,
      } = getData(await admin.get(`/v1/parts/${part.id}`))
      t.same(
        [stock, cost, grade, remark, kept, changed],
        [77, 98_765, 'zeta', 'secretive', part.code, 'Gear'],
      )
    }
  })

  t.test(`an import of a ${role} may repeat what it has read`, async (t) => {
    const part = await newPart({ stock: 77 })
    const exported = await client.get('/v1/parts?fields=serial,name,stock', { accept: 'text/csv' })
    t.match(exported.text, /^id,serial,name,stock\r\n/)
    const imported = await client.call('POST', '/v1/parts?on_conflict=serial', {
      headers: { 'content-type': 'text/csv' },
      body: `serial,name,stock\n${part.serial},Cog,77\n`,
    })
    t.same([imported.status, imported.body.data], [200, { created: 0, updated: 1, unchanged: 0 }])
    t.match(getData(await admin.get(`/v1/parts/${part.id}`)), { name: 'Cog', stock: 77, cost: 98_765 })
  })

  t.test(`a creation by a ${role} has the defaults of what it may not write`, async (t) => {
    const { id } = (await client.post('/v1/parts', newVisible())).body.data
    t.match(getData(await admin.get(`/v1/parts/${id}`)), {
      stock: 5,
      cost: 100,
      grade: 'alpha',
      remark: null,
      code: /^SECRET-/,
    })
  })

  t.test(`events of parts have no field that a ${role} may not read`, async (t) => {
    const headers = { 'x-api-key': people[name].key }
    const streams = await Promise.all(
      versions.map((version) =>
        openStream(t, { app, base }, { headers, path: `${version}/events?resource_type=parts` }),
      ),
    )
    const ofAdmin = await openStream(
      t,
      { app, base },
      {
        headers: { 'x-api-key': (await person('admin')).key },
        path: '/v1/events?resource_type=parts',
      },
    )
    const part = await newPart({ owner_id: people[name].id })
    await admin.patch(`/v1/parts/${part.id}`, { cost: 987_650, grade: 'alpha', remark: 'secretive 2' })
    await admin.delete(`/v1/parts/${part.id}`)
    await waitForDeletion(ofAdmin)
    t.match(JSON.stringify(ofAdmin.events), /"previous":\{[^}]*"grade":"zeta"/, 'an admin sees the change')
    for (const [i, version] of versions.entries()) {
      const stream = streams[i]
      if (stream) await waitForDeletion(stream)
      const texts = [
        JSON.stringify(stream?.events),
        (await client.get(`${version}/events?resource_id=${part.id}&sort=position`)).text,
        (await client.get(`${version}/events?resource_id=${part.id}`, { accept: 'application/x-ndjson' }))
          .text,
      ]
      for (const text of texts) {
        t.match(text, /parts\.updated/)
        for (const pattern of SECRETS[name]) t.notMatch(text, pattern, version)
      }
    }
  })
}

t.test('a webhook has the fields that the owner of its endpoint may read', async (t) => {
  const receivers = { manager: await startReceiver(t), admin: await startReceiver(t) }
  const fields = { event_types: ['parts.*'] }
  await createEndpoint(people.manager.bearer, receivers.manager.url, fields)
  await createEndpoint((await person('admin')).bearer, receivers.admin.url, fields)
  await newPart()
  const [sent] = await receivers.manager.waitFor(1)
  const [whole] = await receivers.admin.waitFor(1)
  t.match(whole?.text, /zeta/, 'an admin has them')
  t.match(sent?.text, /98765/, 'a manager may read the cost')
  for (const pattern of SECRETS.manager) t.notMatch(sent?.text ?? '', pattern)
})

t.test('an entity tag differs between roles that see a resource differently', async (t) => {
  for (const path of [`/v1/parts/${sold.id}`, '/v1/parts', `/v1/repairs?include=part`]) {
    const tags = await Promise.all(
      [admin, clients.manager, clients.member].map(async (client) =>
        (await client.get(path)).headers.get('etag'),
      ),
    )
    t.equal(new Set(tags).size, 3, path)
  }
  const stale = (await admin.get(`/v1/parts/${sold.id}`)).headers.get('etag') ?? ''
  const reply = await clients.member.get(`/v1/parts/${sold.id}`, { 'if-none-match': stale })
  t.equal(reply.status, 200)
  const changed = await clients.member.patch(`/v1/parts/${sold.id}`, { name: 'A' }, { 'if-match': stale })
  t.equal(changed.status, 200, 'If-Match compares the revision alone')
})

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

t.test('an import says nothing of the values of a row that the caller may not change', async (t) => {
  const serial = createUniqueName('serial')
  await admin.post('/v1/tools', { serial, stock: 77 })
  const send = async (client: Client, body: string) => {
    const headers = { 'content-type': 'text/csv' }
    const reply = await client.call('POST', '/v1/tools?on_conflict=serial', { headers, body })
    return [reply.status, ...getViolations(reply)]
  }
  for (const stock of [77, 78]) {
    t.same(await send(clients.member, `serial,stock\n${serial},${stock}\n`), [422, 'rows.1.stock READ_ONLY'])
  }
  t.same(await send(clients.member, `serial\n${serial}\n`), [422, 'rows.1 FORBIDDEN'])
})

t.test('an import finds no row by a field that the caller may not read', async (t) => {
  const send = (client: Client) =>
    client.call('POST', '/v1/tools?on_conflict=pin&dry_run=true', {
      headers: { 'content-type': 'text/csv' },
      body: `pin,serial,owner_id\n1234,${createUniqueName('serial')},${people.member.id}\n`,
    })
  t.equal((await send(admin)).status, 200)
  const reply = await send(clients.member)
  t.same([reply.status, getViolations(reply)], [400, ['on_conflict INVALID_VALUE']])
})

t.test('with HIDE_FORBIDDEN, an import does not name a row that the caller may not change', async (t) => {
  const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database, resources: served })
  const { client } = await hiding.person('member')
  const serial = createUniqueName('serial')
  const { id } = (await hiding.admin.post('/v1/tools', { serial, stock: 77 })).body.data
  const headers = { 'content-type': 'text/csv' }
  const body = `serial\n${serial}\n`
  const reply = await client.call('POST', '/v1/tools?on_conflict=serial', { headers, body })
  t.same([reply.status, getViolations(reply)], [422, ['rows.1 NOT_FOUND']])
  t.match(reply.text, /There is no tool with this serial/)
  t.notMatch(reply.text, id)
})

t.test('the permission tables and the documents say who may read and write', async (t) => {
  t.match(formatAccessTables(served), /\| parts \| cost \| admin, manager \| admin \|/)
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

t.test('a rule by which a value could be found out stops the start', async (t) => {
  const findMistakes = (change: Partial<ResourceDefinition>): string => {
    try {
      compileResources([...resources, { ...partsResource, ...change }, repairsResource], [1, 2])
      return ''
    } catch (error) {
      return error instanceof Error ? error.message : ''
    }
  }
  const { fields } = partsResource
  const cases: [Partial<ResourceDefinition>, RegExp][] = [
    [
      { fields: { ...fields, name: { read: admins } } },
      /"name" cannot be hidden from a role: it is searched/,
    ],
    [{ defaultSort: '-cost' }, /"cost" cannot be hidden from a role: it is the default sort/],
    [{ fields: { ...fields, grade: { read: admins, write: staff } } }, /manager may write but not read it/],
    [{ fields: { ...fields, serial: { write: admins } } }, /member may create resources but not write it/],
    [{ fields: { ...fields, colour: {} } }, /"colour": there is no such field/],
    [{ fields: { ...fields, created_at: { read: admins } } }, /show it to every role/],
    [{ fields: { cost: { read: admins } } }, /"kind" may depend on "cost": say in `fields`/],
    [{ fields: { ...fields, kind: { write: admins } } }, /no body has it/],
    [
      {
        constraints: {
          parts_cost: { code: 'OUT_OF_RANGE', fields: ['cost', 'stock'], message: 'is too low' },
        },
      },
      /a constraint compares it together with other fields/,
    ],
    [
      {
        relations: { other: { to: parts, local: 'code', foreign: 'serial', many: false } },
      },
      /"code" cannot be hidden from a role: a relation compares it/,
    ],
  ]
  t.equal(findMistakes({}), '')
  // What is compared in the table alone.
  const tables: [ResourceDefinition['table'], string, RegExp][] = [
    [
      pgTable('gears', { ...common(), serial: text(), cost: integer() }, (table) => [
        uniqueIndex('gears_serial').on(table.serial).where(sql`${table.cost} > 0`),
      ]),
      'cost',
      /"cost" cannot be hidden from a role: a constraint compares it/,
    ],
    [
      pgTable('gears', { ...common(), serial: text(), stock: integer(), cost: integer() }, (table) => [
        check('gears_cost', sql`${table.stock} < ${table.cost}`),
      ]),
      'cost',
      /"cost" cannot be hidden from a role: a constraint compares it/,
    ],
    [
      pgTable('gears', {
        ...common(),
        cost: integer(),
        stock: integer().generatedAlwaysAs(sql`cost * 2`),
      }),
      'cost',
      /"stock" may depend on "cost": say in `fields`/,
    ],
    [
      pgTable('gears', { ...common(), part_id: uuid().references(() => parts.id) }),
      'part_id',
      /"part_id" cannot be hidden from a role: it refers to parts, and deleting those shows it/,
    ],
  ]
  for (const [table, name, mistake] of tables) {
    const types: TProperties = { ...writable, part_id: Id('The part') }
    const fields = Type.Pick(Type.Object(types), Object.keys(table)).properties
    const gears = define(
      { name: 'gears', singular: 'Gear', table, fields },
      { fields: { [name]: { read: admins } } },
    )
    const compile = () => compileResources([...resources, partsResource, repairsResource, gears], [1, 2])
    t.throws(compile, { message: mistake })
  }
  for (const [change, mistake] of cases) t.match(findMistakes(change), mistake)
})
