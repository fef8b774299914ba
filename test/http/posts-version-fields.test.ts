/** Posts in a version whose names are exchanged and hide the author, whose id is in the path. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { v2 } from '../../plugins/versioning/representation/v2.ts'
import { postsResource } from '../fixtures/resources/posts.ts'
import { type Json, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { getViolations } from '../helpers/replies.ts'
import { v3 } from '../version-3/v3.ts'

const versions = [v1, v2, v3].map((representation) => ({ representation }))
const fields: VersionFields = {
  // Both names are those of other fields in version 1.
  rename: { title: 'body', body: 'title', status: 'state' },
  hide: ['user_id'],
  add: {
    author: {
      schema: Type.String({ description: 'The author', examples: ['Ada'] }),
      value: ({ user_id }) => `${user_id}`,
    },
  },
}
const resources: ResourceDefinition[] = [usersResource, { ...postsResource, versions: { 3: fields } }]
const { admin, adminId } = await testApp(t, {}, { versions, resources })

t.test('each verb of posts in version 3 is that of version 1 with other names', async (t) => {
  const path = `/users/${adminId}/posts`
  /** Checks a reply of version 3, and the fields that were sent, against the row as version 1 has it. */
  const check = async (reply: Reply, sent: Json) => {
    t.ok(reply.status < 300, reply.text)
    const resource = [reply.body.data].flat()[0]
    const { data } = (await admin.get(`/v1${path}/${resource.id}`)).body
    const { title, body, status, user_id, ...rest } = data
    t.same(resource, { ...rest, body: title, title: body, state: status, author: user_id })
    t.same({ title, body, status }, sent)
    return resource
  }
  const created = await admin.post(`/v3${path}`, { body: 'On', title: 'It can', state: 'draft' })
  t.equal(created.status, 201, created.text)
  const first = { title: 'On', body: 'It can', status: 'draft' }
  const { id } = await check(created, first)
  const url = `/v3${path}/${id}`
  await check(await admin.get(url), first)
  await check(await admin.get(`/v3${path}?limit=1`), first)
  const put = { body: 'Off', title: 'It cannot', state: 'published' }
  const second = { title: 'Off', body: 'It cannot', status: 'published' }
  const replaced = await check(await admin.put(url, put), second)
  await check(await admin.put(url, replaced), second)
  const patched = await admin.patch(url, { title: 'Perhaps', state: 'archived' })
  await check(patched, { title: 'Off', body: 'Perhaps', status: 'archived' })
  t.same(getViolations(await admin.put(url, { ...put, user_id: UNKNOWN_ID })), ['user_id UNKNOWN_FIELD'])
  t.same(getViolations(await admin.patch(url, { body: '' })), ['body TOO_SHORT'], 'exchanged names')
  t.equal((await admin.delete(url)).status, 204)
  t.equal((await admin.get(`/v1${path}/${id}`)).status, 404)
})

t.test('the access rules in the OpenAPI document have the names of the version', async (t) => {
  const { paths } = (await admin.get('/openapi/v3.json')).body
  t.match(paths['/api/v3/users/{user_id}/posts'].get.description, 'with `state` published')
})
