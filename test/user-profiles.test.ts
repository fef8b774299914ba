/** A user has at most one profile, which only the user and admins change. */

import { createVersionedClient, describeList, testApp, UNKNOWN_ID } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const api = await testApp(t, buildApp)
const { admin: client, adminId, person } = api

const admin = createVersionedClient(client, 1)
const someone = async () => {
  const { id, client } = await person('member')
  return { id, own: createVersionedClient(client, 1) }
}

t.test('a new profile belongs to the caller, and its other fields are null', async (t) => {
  const { id, own } = await someone()
  const reply = await own.post('/user-profiles', {})
  t.equal(reply.status, 201)
  const { id: made, created_at, updated_at, user_id, ...members } = reply.data
  t.equal(user_id, id)
  t.same(members, {
    ...{ display_name: null, bio: null, avatar_url: null, website_url: null },
    ...{ location: null, time_zone: null, locale: null },
  })
  t.equal(reply.headers.get('location'), `/api/v1/user-profiles/${made}`)
  t.same((await own.get(`/user-profiles/${made}`)).data, reply.data)
})

t.test('every field is stored', async (t) => {
  const { id } = await someone()
  const members = {
    display_name: 'Ada',
    bio: 'One line\n\tand another',
    avatar_url: 'https://example.com/ada.png?size=1#top',
    website_url: 'https://example.com',
    location: 'London',
    time_zone: 'Europe/London',
    locale: 'en-GB',
  }
  const reply = await admin.post('/user-profiles', { user_id: id, ...members })
  t.match(reply.data, { user_id: id, ...members })
})

t.test('a user has one profile, which only the user and staff create', async (t) => {
  const { id, own } = await someone()
  for (const [by, user_id, expected] of [
    [own, adminId, { status: 403, code: 'FORBIDDEN' }],
    [own, UNKNOWN_ID, { status: 403, code: 'FORBIDDEN' }],
    [admin, UNKNOWN_ID, { status: 422, violations: ['user_id NOT_FOUND'] }],
    [own, id.toUpperCase(), { status: 201 }],
    [own, undefined, { status: 409, violations: ['user_id ALREADY_EXISTS'] }],
    [admin, id, { status: 409, violations: ['user_id ALREADY_EXISTS'] }],
  ] as const) {
    t.match(await by.post('/user-profiles', { user_id }), expected)
  }
})

t.test('user_id cannot be changed', async (t) => {
  const { id, own } = await someone()
  const path = `/user-profiles/${(await own.post('/user-profiles', {})).data.id}`
  for (const by of [own, admin]) {
    t.same((await by.patch(path, { user_id: id })).violations, ['user_id READ_ONLY'], 'not even unchanged')
    t.same((await by.put(path, { user_id: adminId })).violations, ['user_id READ_ONLY'])
    t.same((await by.put(path, { user_id: null })).violations, ['user_id INVALID_TYPE'])
    t.equal((await by.put(path, { user_id: id.toUpperCase(), bio: 'x' })).data.user_id, id)
    t.equal((await by.put(path, { bio: 'y' })).data.user_id, id, 'absent it is kept')
  }
})

t.test('a locale is stored in its canonical form', async (t) => {
  const { own } = await someone()
  const path = `/user-profiles/${(await own.post('/user-profiles', { locale: 'en-us' })).data.id}`
  t.equal((await own.get(path)).data.locale, 'en-US')
  const forms = { 'ZH-hant-tw': 'zh-Hant-TW', de: 'de', 'sr-latn': 'sr-Latn', 'iw-IL': 'he-IL' }
  for (const [sent, kept] of Object.entries(forms)) {
    t.equal((await own.patch(path, { locale: sent })).data.locale, kept)
  }
  const before = await own.get(path)
  t.equal((await own.patch(path, { locale: 'HE-il' })).etag, before.etag, 'which is no change')
})

t.test('null clears a field, and a deleted profile is a 404', async (t) => {
  const { own } = await someone()
  const { data } = await own.post('/user-profiles', { display_name: 'A', bio: 'B', locale: 'de' })
  const path = `/user-profiles/${data.id}`
  t.match((await own.patch(path, { bio: null, locale: null })).data, { display_name: 'A', bio: null })
  t.equal((await own.delete(path)).status, 204)
  t.equal((await own.delete(path)).status, 404)
  t.equal((await own.post('/user-profiles', {})).status, 201, 'and room for another')
})

t.test('the list has the promised filters, sorts, searched fields and relations', async (t) => {
  t.same(describeList(api, 'user-profiles'), {
    filters: [
      ...['user_id', 'display_name_null', 'bio_null', 'avatar_url_null', 'website_url_null'],
      ...['location_null', 'time_zone_null', 'locale_null'],
    ],
    ranges: [],
    sorts: ['display_name', 'created_at', 'updated_at'],
    search: ['display_name', 'bio'],
    include: { user: 'users' },
  })
})
