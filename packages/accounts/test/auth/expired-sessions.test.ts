/** A session that has expired does not exist for requests, and is deleted within the hour, without an event. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { pruneSignIns } from '../../src/auth/sign-in-addresses.ts'

const { app, admin, database, person } = await testApp(t)

/** Adds sessions of a user to those that exist. */
const addSessions = (userId: string, count: number, expires: string) =>
  database.run(
    `insert into sessions (id, user_id, refresh_hash, last_used_at, expires_at, ends_at)
     select gen_random_uuid(), $1, 'x', now() - interval '1 day', now() + $3::text::interval, now() + interval '1 day'
     from generate_series(1, $2) returning id`,
    [userId, count, expires],
  )

const countSessions = async (userId: string) =>
  (await database.run('select 1 from sessions where user_id = $1', [userId])).length

t.test('an expired session is not listed, counted, read or deleted', async (t) => {
  const { id, sessionId, bearer } = await person('member')
  const [expired] = await addSessions(id, 1, '-1 second')
  for (const query of ['', '?limit=1', '?page=1', '?sort=created_at']) {
    const { data, pagination } = (await bearer.get(`/sessions${query}`)).body
    t.equal(data.length, 1)
    t.equal(data[0].id, sessionId, query)
    t.equal(pagination.total ?? 1, 1)
  }
  for (const client of [bearer, admin]) {
    t.equal((await client.get(`/sessions/${expired?.id}`)).status, 404)
    t.equal((await client.delete(`/sessions/${expired?.id}`)).status, 404)
  }
})

t.test('expired sessions are deleted by an index scan, without an event', async (t) => {
  const { id, sessionId } = await person('member')
  await addSessions(id, 700, '-1 second')
  const before = (await readChanges(database)).length
  await pruneSignIns(database, () => true)
  t.strictSame(await database.run('select id from sessions where user_id = $1', [id]), [{ id: sessionId }])
  t.equal((await readChanges(database)).length, before)

  await addSessions(id, 5_000, '1 day')
  await database.run('analyze sessions')
  const plan = await database.run('explain select id from sessions where expires_at <= now() limit 500')
  t.match(JSON.stringify(plan), /sessions_expires_at/)
})

t.test('expired sessions do not count among the 100 of a user', async (t) => {
  const { id } = await person('member')
  await addSessions(id, 98, '1 day')
  await addSessions(id, 5, '-1 second')
  const before = (await readChanges(database)).length
  for (let i = 0; i < 2; i++)
    await app.sessions.create({ id, role: 'member' }, { ip: '127.0.0.1', userAgent: 'test' })
  const types = (await readChanges(database)).slice(before).map(({ type }) => type)
  t.same(types, ['sessions.created', 'sessions.deleted', 'sessions.created'], 'the second ends one of 100')
  await pruneSignIns(database, () => true)
  t.equal(await countSessions(id), 100)
})
