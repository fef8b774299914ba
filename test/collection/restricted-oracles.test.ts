/** No error, header, cursor or connection shows a role anything of a field that it may not read. */
import t from 'tap'
import type { Violation } from '../../schemas/error.ts'
import { openStream } from '../helpers/events.ts'
import { getViolations } from '../helpers/replies.ts'
import { createEndpoint, startReceiver } from '../helpers/webhooks.ts'
import { hiddenNames, openParts, SECRETS, toPublic, versions } from './restricted-parts.ts'

const { admin, app, base, clients, newPart, person, sold } = await openParts(t)

/** The names of the fields, but not the member `code` of each violation. */
const named = {
  manager: [/grade/, /remark/, /[ ,]code\b/, /margin/],
  member: [/grade/, /remark/, /[ ,]code\b/, /margin/, /cost/, /price/],
}

for (const name of ['manager', 'member'] as const) {
  const client = clients[name]

  t.test(`an error names no field that a ${name} may not read`, async (t) => {
    for (const version of versions) {
      const queries = [
        '/parts?nope=1',
        '/parts?fields=nope',
        '/parts?sort=nope',
        `/parts/${sold.id}?fields=nope`,
        '/repairs?include=nope',
      ]
      for (const query of queries) {
        const reply = await client.get(`${version}${query}`)
        t.equal(reply.status, 400, query)
        for (const pattern of named[name]) t.notMatch(reply.text, pattern, `${version}${query}`)
      }
      const csv = { 'content-type': 'text/csv' }
      const sent = await client.call('POST', `${version}/parts?on_conflict=nope`, {
        headers: csv,
        body: 'serial,name\nS,N\n',
      })
      t.equal(sent.status, 400)
      for (const pattern of named[name]) t.notMatch(sent.text, pattern, `${version} on_conflict`)
    }
  })

  t.test(`a field that a ${name} may not read is as unknown as one that does not exist`, async (t) => {
    for (const version of versions) {
      for (const hidden of hiddenNames[name].map((each) => toPublic(each, version))) {
        for (const path of [
          '/parts?fields=NAME',
          '/parts?sort=NAME',
          '/parts?sort=-NAME',
          '/parts?NAME=1',
          '/parts?NAME_min=1',
          '/parts?NAME_not=1',
          '/parts?NAME_null=true',
          '/parts?NAME_prefix=1',
          '/repairs?part.NAME=1',
        ]) {
          const ask = async (field: string) => {
            const { status, body } = await client.get(`${version}${path.replace('NAME', field)}`)
            const violations: Violation[] = body.error.details ?? body.error.errors
            return [
              status,
              violations.map((each) => [
                `${each.field}: ${each.message}`.replaceAll(field, 'NAME'),
                each.code,
              ]),
            ]
          }
          t.same(await ask(hidden), await ask('nope'), `${version}${path.replace('NAME', hidden)}`)
        }
      }
    }
  })
}

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
    const field = version === '/v2' ? 'data.attributes.code' : 'code'
    const whole = await admin.post(`${version}${path}`, {})
    t.same(
      [whole.status, getViolations(whole)],
      [409, [`${field} ALREADY_EXISTS`.replace(/^data.attributes./, '')]],
      whole.text,
    )
    const reply = await clients.member.post(`${version}${path}`, {})
    t.same([reply.status, getViolations(reply)], [409, []], reply.text)
    const batch = await clients.member.post(`${version}/batches`, { operations })
    t.same([batch.status, getViolations(batch)], [409, ['operations.0 INVALID_VALUE']], batch.text)
    for (const { text } of [reply, batch]) t.notMatch(text, /The code|"code is|body\.code/)
  }
})

t.test('a stream ends when its reader gets a role that sees less', async (t) => {
  const { id, key } = await person('admin')
  const stream = await openStream(
    t,
    { app, base },
    {
      headers: { 'x-api-key': key },
      path: '/v1/events?resource_type=parts',
    },
  )
  await admin.patch(`/v1/users/${id}`, { role: 'manager' })
  await stream.waitForEnd()
  t.same(stream.events, [])
})

t.test('a delivery that is sent again has what the owner of the endpoint may read now', async (t) => {
  const receiver = await startReceiver(t)
  const owner = await person('admin')
  const { id } = await createEndpoint(owner.bearer, receiver.url, { event_types: ['parts.*'] })
  await newPart()
  const [first] = await receiver.waitFor(1)
  t.match(first?.text, /zeta/)
  await admin.patch(`/v1/users/${owner.id}`, { role: 'manager' })
  const event = JSON.parse(first?.text ?? '').data.id
  const sent = await admin.post(`/v1/webhook-endpoints/${id}/deliveries`, { event_id: event })
  t.equal(sent.status, 201, sent.text)
  const received = await receiver.waitFor(2)
  const again = received.at(-1)?.text ?? ''
  t.match(again, /98765/)
  for (const pattern of SECRETS.manager) t.notMatch(again, pattern)
})

t.test('HEAD has the headers of GET for each role', async (t) => {
  for (const version of versions) {
    for (const path of [`${version}/parts/${sold.id}`, `${version}/parts`]) {
      const [get, head, other] = [
        await clients.member.get(path),
        await clients.member.call('HEAD', path),
        await admin.call('HEAD', path),
      ]
      for (const header of ['etag', 'content-length', 'last-modified']) {
        t.equal(head.headers.get(header), get.headers.get(header), `${path} ${header}`)
      }
      t.not(head.headers.get('etag'), other.headers.get('etag'))
    }
  }
})
