/** Rows of tables that others have made are addressed by any kind of key: each kind has all operations that ids have. */
import t, { type Test } from 'tap'
import { resources } from '../../../../src/resources.ts'
import { connectAgent, MCP } from '../../../docs/test/mcp/agent.ts'
import { ADMIN_KEY, type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { NDJSON } from '../../../testing/helpers/imports.ts'
import { getViolations, readPages } from '../../../testing/helpers/replies.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createKeyTables, keyCollections, keyResources } from './keys.ts'

const database = await testDatabase(t)
await createKeyTables(database)
const { admin, base } = await testApp(t, MCP, { database, resources: [...resources, ...keyResources] })

interface Kind {
  /** The fields of the key in a body, of row n; none if the server or the database makes the id. */
  toKey?(n: number): Json
  /** The id of row n, where it follows from the key. */
  toId?(n: number): string | number
  /** Texts of a path that are those of no row. */
  wrong: readonly string[]
}

const hardTexts = [
  'a/b',
  'a%2Fb',
  'a,b',
  'a~b',
  'a\\b',
  '日本',
  ' x ',
  'A',
  'a',
  '042',
  '$0',
  'e\u0301',
  '"q"',
  'a?b#c',
  'x'.repeat(2000),
]
const toHard = (n: number) => `${hardTexts[n % hardTexts.length]}${n >= hardTexts.length ? n : ''}`
const toTime = (n: number) => new Date(Date.UTC(2026, 10, 21, 9, 30, 0, n)).toISOString()
const badIntegers = ['042', '+42', '4.0', '-0', '2147483648', 'x', '%00', '1e3']
const unknownId = '00000000-0000-4000-8000-000000000000'

const kinds: Readonly<Record<keyof typeof keyCollections, Kind>> = {
  identity: { wrong: badIntegers },
  serial: { wrong: badIntegers },
  number: { toKey: (n) => ({ id: n - 5 }), toId: (n) => n - 5, wrong: [...badIntegers, '32768'] },
  varchar: {
    toKey: (n) => ({ id: `${n}~日` }),
    toId: (n) => `${n}~日`,
    wrong: ['ALFKIX', '%00', '0~'],
  },
  text: { toKey: (n) => ({ id: toHard(n) }), toId: toHard, wrong: ['%00', 'missing', 'y'.repeat(3000)] },
  uuidDefault: { wrong: ['x', unknownId] },
  uuid: { wrong: ['x', unknownId] },
  composite: {
    toKey: (n) => ({ order_number: n, product: `a~%${n}, b`, day: '2026-11-21' }),
    toId: (n) => `${n}~a%7E%25${n}, b~2026-11-21`,
    wrong: ['1', '01~a~2026-11-21', '1~a~2026-11-31', '1~a~x', '1~a~b~c', '%00~a~2026-11-21'],
  },
  words: { wrong: ['042', 'x', '9007199254740993'] },
  schema: { wrong: badIntegers },
  char: {
    toKey: (n) => ({ id: `c${n}~` }),
    toId: (n) => `c${n}~`,
    wrong: ['%00', 'c0', 'c0~%20', 'toolong'],
  },
  times: {
    toKey: (n) => ({ paid_at: toTime(n), amount: `${n}.50`, is_cash: n % 2 === 0, branch: 'a' }),
    toId: (n) => `${toTime(n)}~${n}.50~${n % 2 === 0}~a`,
    wrong: [
      'x~1.50~true~a',
      `${toTime(0)}~0.5~true~a`,
      `${toTime(0)}~0.50~t~a`,
      `${toTime(0)}~0.50~true~a%20`,
    ],
  },
}

const getPath = (name: keyof typeof keyCollections) => `/${keyCollections[name].name}`
const toAddress = (path: string, id: string | number) => `${path}/${encodeURIComponent(id)}`

/** Returns an id as a value of a filter, which is a list. */
const toValue = (id: string | number) => encodeURIComponent(String(id).replaceAll(/[\\,]/g, '\\$&'))

async function expect(t: Test, reply: Reply | Promise<Reply>, status: number, what: string): Promise<Json> {
  const { status: found, body, text } = await reply
  t.equal(found, status, found === status ? what : `${what}: ${text}`)
  return body
}

for (const [name, { toKey, toId, wrong }] of Object.entries(kinds)) {
  // The names of the kinds are those of the collections.
  const path = getPath(name as keyof typeof keyCollections)
  let count = 0
  const create = async (t: Test, label = 'new') => {
    const n = count++
    const reply = await admin.post(path, { ...toKey?.(n), label })
    await expect(t, reply, 201, `row ${n} is created`)
    return { n, reply, id: reply.body?.data?.id }
  }

  t.test(`${name}: a row is created, and read where Location says`, async (t) => {
    for (let i = 0; i < hardTexts.length; i++) {
      const { n, reply, id } = await create(t)
      if (toId) t.equal(id, toId(n))
      t.equal(
        typeof id,
        ['identity', 'serial', 'number', 'words', 'schema'].includes(name) ? 'number' : 'string',
      )
      const location = reply.headers.get('location') ?? ''
      const read = await admin.get(location.replace('/api/v1', ''))
      await expect(t, read, 200, location)
      t.strictSame(read.body.data, reply.body.data)
      t.equal(read.headers.get('etag'), reply.headers.get('etag'))
      const typed = await admin.get(`/v2${toAddress(path, id)}`)
      t.equal(typed.body.data?.id, String(id), 'a text in v2')
    }
  })

  t.test(`${name}: a text that is no id is 404`, async (t) => {
    for (const text of wrong) {
      await expect(t, admin.get(`${path}/${text}`), 404, text.slice(0, 50))
      await expect(t, admin.patch(`${path}/${text}`, { label: 'x' }), 404, text.slice(0, 50))
      await expect(t, admin.delete(`${path}/${text}`), 404, text.slice(0, 50))
    }
  })

  t.test(`${name}: it is changed, replaced and removed, under the tag of its content`, async (t) => {
    const { id, reply } = await create(t)
    const address = toAddress(path, id)
    const old = { 'if-match': reply.headers.get('etag') ?? '' }
    const patched = await admin.patch(address, { label: 'patched' }, old)
    await expect(t, patched, 200, 'PATCH')
    t.match(patched.body.data, { id, label: 'patched' })
    await expect(t, admin.patch(address, { label: 'late' }, old), 412, 'an old tag')
    const put = await admin.put(
      address,
      { ...patched.body.data, label: 'put' },
      { 'if-match': patched.headers.get('etag') ?? '' },
    )
    await expect(t, put, 200, 'PUT')
    const same = await admin.patch(address, { label: 'put' })
    t.equal(same.headers.get('etag'), put.headers.get('etag'), 'no change')
    await expect(t, admin.delete(address, old), 412, 'DELETE with an old tag')
    await expect(t, admin.get(address, { 'if-none-match': put.headers.get('etag') ?? '' }), 304, '304')
    await expect(t, admin.put(address, { ...put.body.data, id: 'another' }), 422, 'another id')
    await expect(t, admin.delete(address, { 'if-match': put.headers.get('etag') ?? '' }), 204, 'DELETE')
    await expect(t, admin.get(address), 404, 'gone')
    await expect(t, admin.delete(address), 404, 'gone')
  })

  t.test(`${name}: lists are walked in each order, and filtered by ids`, async (t) => {
    const whole = await admin.get(`${path}?limit=100`)
    const ids: (string | number)[] = (await expect(t, whole, 200, 'list')).data.map(({ id }: Json) => id)
    for (const sort of ['id', '-id', 'label', '-label', 'label,-id']) {
      const walked: (string | number)[] = []
      for await (const { body } of readPages(admin, `${path}?sort=${sort}&limit=2`))
        walked.push(...body.data.map(({ id }: Json) => id))
      t.strictSame([...walked].sort(), [...ids].sort(), sort)
      t.equal(new Set(walked).size, walked.length)
      const reversed = (await admin.get(`${path}?sort=${sort}&page=1&limit=100`)).body
      t.strictSame(
        reversed.data?.map(({ id }: Json) => id),
        walked,
      )
    }
    for (const id of ids) {
      const found = await admin.get(`${path}?id=${toValue(id)}`)
      t.strictSame(
        found.body.data?.map((each: Json) => each.id),
        [id],
        `id=${String(id).slice(0, 40)}`,
      )
    }
    const both = await admin.get(`${path}?id=${ids.slice(0, 2).map(toValue).join()}&fields=label`)
    t.strictSame(both.body.data?.map(({ id }: Json) => id).sort(), ids.slice(0, 2).sort())
  })

  t.test(`${name}: rows are exported, and imported`, async (t) => {
    const ids = (await admin.get(`${path}?limit=100`)).body.data.map(({ id }: Json) => id)
    for (const version of ['', '/v2']) {
      const { text } = await admin.get(`${version}${path}`, { accept: 'application/x-ndjson' })
      const rows = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      t.strictSame(
        rows.map(({ id }) => id).sort(),
        ids.map((id: unknown) => (version ? String(id) : id)).sort(),
      )
    }
    const csv = await admin.get(path, { accept: 'text/csv' })
    await expect(t, csv, 200, 'CSV')
    const rows = [0, 1].map((i) => JSON.stringify({ ...toKey?.(900 + i), label: `imported ${i}` })).join('\n')
    const imported = await admin.call('POST', path, { body: rows, headers: NDJSON })
    await expect(t, imported, 200, 'import')
    t.match(imported.body, { data: { created: 2 } })
  })

  t.test(`${name}: batches write rows, those of the batch itself by $n`, async (t) => {
    const before = await create(t)
    const key = toKey?.(950)
    const operations = [
      { method: 'POST', path, body: { ...key, label: 'in a batch' } },
      { method: 'PATCH', path: `${path}/$0`, body: { label: 'changed in it' } },
      { method: 'PATCH', path: toAddress(path, before.id).replace('/$', '/%24'), body: { label: 'too' } },
      { method: 'DELETE', path: toAddress(path, before.id).replace('/$', '/%24') },
    ]
    const reply = await admin.post('/batches', { operations })
    const { data } = await expect(t, reply, 200, 'batch')
    t.match(data?.results, [
      { status: 201 },
      { status: 200, body: { label: 'changed in it' } },
      { status: 200 },
      { status: 204 },
    ])
    t.equal(data?.results[1].body.id, data?.results[0].body.id)
    const read = await admin.get(data.results[0].location.replace('/api/v1', ''))
    t.match(read.body.data, { label: 'changed in it' })
    const wrongReply = await admin.post('/batches', {
      operations: [{ method: 'DELETE', path: `${path}/${wrong[0]}` }],
    })
    await expect(t, wrongReply, 404, 'no id')
  })

  t.test(`${name}: a dry run writes nothing`, async (t) => {
    const { id } = await create(t)
    const address = toAddress(path, id)
    await expect(t, admin.delete(`${address}?dry_run=true`), 200, 'dry run')
    const dry = await admin.patch(`${address}?dry_run=true`, { label: 'dry' })
    t.match(await expect(t, dry, 200, 'dry run'), { data: { id, label: 'dry' } })
    await expect(t, admin.post(`${path}?dry_run=true`, { ...toKey?.(990), label: 'x' }), 201, 'dry run')
    t.match((await admin.get(address)).body.data, { label: 'new' })
  })

  t.test(`${name}: changes are events, and a deletion is restored`, async (t) => {
    const { id } = await create(t, 'event')
    const address = toAddress(path, id)
    await admin.patch(address, { label: 'event 2' })
    await admin.delete(address)
    const restored = await admin.post(`${address}/restores`, {})
    t.match(await expect(t, restored, 201, 'restore'), { data: { id, label: 'event 2' } })
    await expect(t, admin.post(`${address}/restores`, {}), 409, 'it exists')
    const ofRow = `resource_type=${path.slice(1)}&resource_id=${toValue(id)}`
    let events: Json[] = []
    await waitUntil(async () => {
      events = (await admin.get(`/events?sort=position&${ofRow}`)).body.data
      return events.length === 4
    })
    t.match(
      events.map(({ type, resource_id, data }) => ({ type: type.split('.')[1], resource_id, id: data.id })),
      ['created', 'updated', 'deleted', 'created'].map((type) => ({ type, resource_id: String(id), id })),
    )
    const revisions = events.map(({ revision }) => revision)
    t.strictSame(
      revisions,
      [...revisions].sort((a, b) => a - b),
    )
  })

  if (toKey)
    t.test(`${name}: a taken id is 409, and an id never changes`, async (t) => {
      const { n, id } = await create(t)
      const again = await admin.post(path, { ...toKey(n), label: 'again' })
      await expect(t, again, 409, 'taken')
      t.ok(getViolations(again).every((each) => each.endsWith('ALREADY_EXISTS')))
      await expect(t, admin.patch(toAddress(path, id), { ...toKey(n + 700) }), 422, 'another key')
      await expect(t, admin.post(path, { label: 'x' }), 422, 'without a key')
    })
}

t.test(
  'rows refer to rows with any key: includes, filters, references, batches, and deletions that take them along',
  async (t) => {
    const path = '/key-tracks'
    const operations = [
      { method: 'POST', path: '/key-albums', body: { label: 'album' } },
      { method: 'POST', path: '/key-customers', body: { id: 'BUY$1', label: 'customer' } },
      { method: 'POST', path, body: { album_id: '$0', customer: '$1', label: 'track' } },
    ]
    const { data } = await expect(t, await admin.post('/batches', { operations }), 200, 'batch')
    const [album, customer, track] = data.results.map(({ body }: Json) => body)
    t.match(track, { album_id: album.id, customer: 'BUY$1' })
    const read = await admin.get(`${path}/${track.id}?include=album,buyer`)
    t.match(read.body.data, { album: { id: album.id, label: 'album' }, buyer: { id: customer.id } })
    const typed = await admin.get(`/v2${path}/${track.id}?include=album,buyer`)
    t.match(typed.body.data, {
      attributes: { album_id: album.id },
      relationships: { album: { id: String(album.id) }, buyer: { id: 'BUY$1' } },
    })
    t.match((await admin.get(`/key-albums/${album.id}?include=tracks`)).body.data, {
      tracks: [{ id: track.id }],
    })
    t.match((await admin.get('/key-customers/BUY$1?include=tracks')).body.data, {
      tracks: [{ id: track.id }],
    })
    t.strictSame(
      getViolations(await admin.post(path, { album_id: 2_000_000_000, customer: null, label: 'x' })),
      ['album_id NOT_FOUND'],
    )
    await expect(t, admin.delete('/key-customers/BUY$1'), 409, 'the track refers to it')
    await expect(t, admin.delete(`/key-albums/${album.id}`), 204, 'with its tracks')
    await expect(t, admin.get(`${path}/${track.id}`), 404, 'deleted')
    const ofTrack = `/events?sort=position&type=key-tracks.deleted&resource_id=${track.id}`
    await waitUntil(async () => (await admin.get(ofTrack)).body.data.length === 1)
  },
)

t.test('a client sets the id of a text or a number: beside the attributes in v2', async (t) => {
  const send = (path: string, data: Json) => admin.post(`/v2${path}`, { data })
  const attributes = { label: 'v2' }
  const text = await send('/key-pages', { type: 'key-pages', id: ' v2 é', attributes })
  t.match(await expect(t, text, 201, 'text'), { data: { id: ' v2 é', attributes } })
  const number = await send('/key-numbers', { type: 'key-numbers', id: '-77', attributes })
  t.match(await expect(t, number, 201, 'number'), { data: { id: '-77', attributes } })
  await expect(t, send('/key-pages', { type: 'key-pages', attributes }), 422, 'no id')
  await expect(
    t,
    send('/key-pages', { type: 'key-pages', id: 'x', attributes: { ...attributes, id: 'x' } }),
    422,
    'twice',
  )
  await expect(t, send('/key-numbers', { type: 'key-numbers', id: '07', attributes }), 422, 'no number')
  await expect(t, admin.post('/key-pages', { id: 'a\u0000', label: 'x' }), 422, 'U+0000')
  const put = { data: { type: 'key-numbers', id: '-77', attributes: { label: 'put' } } }
  await expect(t, admin.put('/v2/key-numbers/-77', put), 200, 'PUT')
  await expect(t, admin.put('/v2/key-numbers/-77', { data: { ...put.data, id: '-78' } }), 409, 'another id')
})

t.test('an import finds rows by the id that clients set', async (t) => {
  const rows = [
    { id: 'import', label: 'first' },
    { id: 'import 2', label: 'second' },
  ]
  const send = (lines: readonly object[]) =>
    admin.call('POST', '/key-pages?on_conflict=id', {
      body: lines.map((line) => JSON.stringify(line)).join('\n'),
      headers: NDJSON,
    })
  t.match((await send(rows)).body, { data: { created: 2, updated: 0 } })
  const changed = rows.map((row) => ({ ...row, label: `${row.label}!` }))
  t.match((await send([...changed, { id: 'import 3', label: 'x' }])).body, {
    data: { created: 1, updated: 2 },
  })
})

t.test('a change by another program changes the tag, and a write waits for it', async (t) => {
  const { body, headers } = await admin.post('/key-serials', { label: 'mine' })
  const address = `/key-serials/${body.data.id}`
  await database.run(`update key_serials set label = 'theirs' where no = $1`, [body.data.id])
  const match = { 'if-match': headers.get('etag') ?? '' }
  await expect(t, admin.patch(address, { label: 'late' }, match), 412, 'PATCH')
  await database.run(`update key_serials set label = 'mine' where no = $1`, [body.data.id])
  await expect(t, admin.patch(address, { label: 'in time' }, match), 200, 'the content is what it was')
})

t.test('times by other names are those of the server, sort the list and limit it', async (t) => {
  const { data } = (await admin.post('/key-albums', { label: 'now' })).body
  t.match(data, { create_date: /^20\d\d-/, last_update: '2020-01-01T00:00:00.000Z' })
  const { body, headers } = await admin.patch(`/key-albums/${data.id}`, { label: 'later' })
  t.ok(body.data.last_update >= data.create_date)
  t.equal(body.data.create_date, data.create_date)
  t.equal(headers.get('last-modified'), null)
  const newest = await admin.get(`/key-albums?create_date_after=${data.create_date}`)
  t.equal(newest.body.data[0].id, data.id, 'the newest first')
  t.strictSame((await admin.get(`/key-albums?create_date_before=2001-01-01`)).body.data, [])
  await expect(
    t,
    admin.post('/key-albums', { label: 'x', create_date: '2026-11-21T00:00:00Z' }),
    422,
    'read-only',
  )
})

t.test('the documents say what an id is', async (t) => {
  const { body } = await admin.get('/openapi/v1.json')
  const getId = (path: string) => {
    const [{ $ref }] =
      body.paths[`/api/v1${path}/{id}`].parameters ?? body.paths[`/api/v1${path}/{id}`].get.parameters
    return body.components.parameters[$ref.split('/').at(-1)].schema
  }
  t.match(getId('/key-numbers'), { type: 'integer', minimum: -32_768, maximum: 32_767 })
  t.match(getId('/key-customers'), { type: 'string' })
  t.notOk(JSON.stringify(body).includes('x-id'))
})

t.test('columns with names of ours mean nothing', async (t) => {
  const others = { created_at: 'c', updated_at: 'u', search: 's', limit: 'l', version: 'v', user: 'w' }
  const made = await admin.post('/key-words', { label: 'words', ...others })
  t.match(await expect(t, made, 201, 'POST'), { data: others })
  const address = `/key-words/${made.body.data.id}`
  const since = { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' }
  const changed = await admin.patch(address, { label: 'changed' }, since)
  t.match(await expect(t, changed, 200, 'PATCH'), { data: { ...others, label: 'changed' } })
  await expect(t, admin.get('/key-words?limit=1'), 200, 'a parameter')
})

t.test('rows stand below rows with any key', async (t) => {
  const { id } = (await admin.post('/key-albums', { label: 'parent' })).body.data
  await admin.post('/key-shelves', { id: 'a/b ü', label: 'parent' })
  for (const [parent, other, member, value] of [
    [`/key-albums/${id}/key-discs`, `/key-albums/0${id}/key-discs`, 'album_id', id],
    [
      `/key-shelves/${encodeURIComponent('a/b ü')}/key-books`,
      '/key-shelves/missing/key-books',
      'shelf',
      'a/b ü',
    ],
  ]) {
    const made = await admin.post(parent, { label: 'child' })
    t.match(await expect(t, made, 201, 'POST'), { data: { [member]: value } })
    const address = (made.headers.get('location') ?? '').replace('/api/v1', '')
    t.match(await expect(t, admin.get(address), 200, address), { data: { [member]: value, label: 'child' } })
    t.match((await admin.get(parent)).body.data, [{ id: made.body.data.id }])
    await expect(t, admin.get(other), 404, 'another parent')
    await expect(t, admin.post(other, { label: 'x' }), 404, 'another parent')
    await expect(t, admin.patch(address, { label: 'changed' }), 200, 'PATCH')
    const operations = [{ method: 'DELETE', path: address }]
    await expect(t, admin.post('/batches', { operations }), 200, 'batch')
  }
})

t.test('agents address rows by any key', async (t) => {
  const agent = await connectAgent(t, { base }, { 'x-api-key': ADMIN_KEY })
  await admin.post('/key-pages', { id: 'agents/日', label: 'page' })
  for (const [name, id] of [
    ['key_numbers_get', 0],
    ['key_pages_get', 'agents/日'],
  ] as const) {
    const { body, texts } = await agent.callTool(name, { id })
    t.match(body, { data: { id } }, `${name}: ${texts}`)
  }
})
