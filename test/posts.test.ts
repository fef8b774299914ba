/** Posts belong to the user in their path and remember their first publication. */

import { createVersionedClient, describeList, testApp, UNKNOWN_ID } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const STATES = ['draft', 'published', 'archived'] as const

const api = await testApp(t, buildApp)
const { admin: client, adminId, person } = api
const author = await person('member')
const other = await person('member')

const admin = createVersionedClient(client, 1)
const own = createVersionedClient(author.client, 1)
const posts = `/users/${author.id}/posts`
const newPost = async (members: Record<string, unknown> = {}) =>
  (await own.post(posts, { title: 'On tea', body: 'It is warm.', ...members })).data

t.test('a new post is a draft of the user in the path', async (t) => {
  const reply = await own.post(posts, { title: ' On tea ', body: '  It is warm.\n' })
  t.equal(reply.status, 201)
  const { id, created_at, updated_at, ...members } = reply.data
  const texts = { title: 'On tea', body: '  It is warm.\n' }
  t.same(members, { user_id: author.id, ...texts, status: 'draft', published_at: null })
  t.equal(reply.headers.get('location'), `/api/v1${posts}/${id}`)
  t.same((await own.get(`${posts}/${id}`)).data, reply.data)
  const ownPost = await own.post('/users/me/posts', { title: 'Mine', body: 'x' })
  t.equal(ownPost.data.user_id, author.id)
  t.equal(ownPost.headers.get('location'), `/api/v1${posts}/${ownPost.data.id}`)
  t.equal((await own.get(`/users/me/posts/${ownPost.data.id}`)).status, 200)
})

t.test('every status can change to each of the others, and to itself without effect', async (t) => {
  for (const from of STATES) {
    for (const to of STATES) {
      const { id } = await newPost({ status: from })
      const before = await own.get(`${posts}/${id}`)
      const reply = await own.patch(`${posts}/${id}`, { status: to })
      t.equal(reply.status, 200)
      t.equal(reply.data.status, to)
      t.equal(reply.etag === before.etag, from === to)
    }
  }
})

t.test('published_at is the time of the first publication', async (t) => {
  const { id } = await newPost()
  const path = `${posts}/${id}`
  const published = (await own.patch(path, { status: 'published' })).data.published_at
  t.match(published, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  for (const status of ['archived', 'published', 'draft', 'published']) {
    t.equal((await own.patch(path, { status })).data.published_at, published)
  }
  const replaced = await own.put(path, { title: 'New', body: 'New' })
  t.match(replaced.data, { status: 'draft', published_at: published })
  t.ok((await newPost({ status: 'published' })).published_at, 'also where it begins published')
  t.equal((await newPost({ status: 'archived' })).published_at, null)
})

t.test('published_at and user_id are read-only', async (t) => {
  const now = new Date().toISOString()
  const sent = { title: 'a', body: 'b', published_at: now, user_id: author.id }
  const wrong = ['published_at READ_ONLY', 'user_id READ_ONLY']
  t.same((await own.post(posts, sent)).violations, wrong)
  const { id } = await newPost()
  const path = `${posts}/${id}`
  t.same((await own.patch(path, { published_at: now, user_id: author.id })).violations, wrong)
  t.equal((await own.put(path, sent)).data.published_at, null, 'PUT ignores what it cannot write')
  t.same((await own.put(path, { ...sent, user_id: other.id })).violations, ['user_id READ_ONLY'])
  t.equal((await own.put(path, { ...sent, user_id: author.id.toUpperCase() })).status, 200)
})

t.test('a post under another user, and a list or a new post under an unknown one, are a 404', async (t) => {
  const { id } = await newPost({ status: 'published' })
  const whole = { title: 'a', body: 'b' }
  for (const user of [other.id, adminId, UNKNOWN_ID, 'not-a-uuid', 'me']) {
    const path = `/users/${user}/posts/${id}`
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const body = method === 'PUT' || method === 'PATCH' ? whole : undefined
      t.equal((await client.call(method, path, { body })).status, 404, `${method} ${user}`)
    }
  }
  t.equal((await own.get(`${posts}/${id}`)).status, 200)
  for (const by of [admin, own]) {
    for (const user of [UNKNOWN_ID, 'not-a-uuid']) {
      const path = `/users/${user}/posts`
      for (const reply of [await by.get(path), await by.get(`${path}?page=1`), await by.post(path, whole)]) {
        t.match(reply, { status: 404, code: 'RESOURCE_NOT_FOUND' })
      }
    }
  }
  const empty = await person('member')
  t.same((await admin.get(`/users/${empty.id}/posts`)).data, [])
})

t.test('title has 1 to 200 characters, and body 1 to 100,000', async (t) => {
  const path = `${posts}/${(await newPost()).id}`
  const wide = '\u{1F9E1}'
  for (const [name, max] of [
    ['title', 200],
    ['body', 100_000],
  ] as const) {
    t.equal((await own.patch(path, { [name]: wide.repeat(max) })).data[name], wide.repeat(max))
  }
  for (const [change, violation] of [
    [{ title: wide.repeat(201) }, 'title TOO_LONG'],
    [{ body: wide.repeat(100_001) }, 'body TOO_LONG'],
    [{ title: '' }, 'title TOO_SHORT'],
    [{ body: '' }, 'body TOO_SHORT'],
    [{ title: null }, 'title INVALID_TYPE'],
    [{ title: 'a\nb' }, 'title INVALID_FORMAT'],
    [{ status: null }, 'status INVALID_TYPE'],
    [{ status: 'gone' }, 'status INVALID_VALUE'],
  ] as const) {
    t.same((await own.patch(path, change)).violations, [violation])
  }
  t.same((await own.post(posts, {})).violations, ['body REQUIRED', 'title REQUIRED'])
  t.same((await own.put(path, {})).violations, ['body REQUIRED', 'title REQUIRED'])
  const { data } = await own.patch(path, { title: ' Cafe\u0301 ', body: ' a\r\nCafe\u0301 \n' })
  t.match(data, { title: 'Caf\u00e9', body: ' a\nCaf\u00e9 \n' }, 'a body keeps its ends')
})

t.test('a filter by status does not reveal the drafts of others', async (t) => {
  const member = createVersionedClient(other.client, 1)
  const { id: path } = await person('member')
  for (const status of ['draft', 'published']) {
    await admin.post(`/users/${path}/posts`, { title: status, body: 'b', status })
  }
  for (const [status, count] of [
    ['draft', 0],
    ['published', 1],
  ] as const) {
    const { body } = await member.get(`/users/${path}/posts?status=${status}&page=1`)
    t.same([body.data.length, body.pagination.total], [count, count], status)
    t.equal((await admin.get(`/users/${path}/posts?status=${status}`)).data.length, 1, `${status}: staff`)
  }
})

t.test('the list has the promised filters, sorts, searched fields and relations', async (t) => {
  t.same(describeList(api, 'posts'), {
    filters: ['status', 'status_not'],
    ranges: [],
    sorts: ['title', 'published_at', 'created_at', 'updated_at'],
    search: ['title', 'body'],
    include: { user: 'users' },
  })
})
