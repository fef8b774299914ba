/** The resources of docs/teams.md do what the table at its end says. */
import t from 'tap'
import { createClient, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { getIds } from '../helpers/replies.ts'

t.test('only members see projects, an owner invites, and a member who leaves loses sight', async (t) => {
  const { admin, base, person } = await testApp(t, { ALLOW_SIGNUP: 'true' })
  const [owner, guest, stranger] = [await person('member'), await person('member'), await person('member')]
  const created = await owner.client.post('/organizations', { name: 'Acme' })
  t.equal(created.status, 201)
  const { id: organization_id } = created.body.data
  const memberships = (await owner.client.get('/memberships')).body.data
  t.match(memberships, [{ organization_id, user_id: owner.id, role: 'owner' }])
  const project = (await owner.client.post('/projects', { organization_id, name: 'Rocket' })).body.data
  for (const { client } of [guest, stranger]) {
    for (const path of ['/projects', '/organizations']) t.same(getIds(await client.get(path)), [], path)
    t.equal((await client.post('/projects', { organization_id, name: 'Mine' })).status, 403)
  }

  // An owner adds no user, and does not learn which ids exist.
  for (const user_id of [guest.id, UNKNOWN_ID]) {
    const body = { organization_id, user_id }
    const ndjson = { 'content-type': 'application/x-ndjson' }
    t.equal((await owner.client.post('/memberships', body)).status, 403)
    t.equal((await owner.client.post('/memberships', `${JSON.stringify(body)}\n`, ndjson)).status, 403)
    const operations = [{ method: 'POST', path: '/memberships', body }]
    const { details } = (await owner.client.post('/batches', { operations })).body.error
    t.match(details, [{ field: 'operations.0.path', code: 'FORBIDDEN' }])
  }
  const moved = await owner.client.patch(`/memberships/${memberships[0].id}`, { user_id: guest.id })
  t.equal(moved.status, 422, 'a membership stays that of its user')

  // The invitation is seen by the user with the verified address, not by one who has only entered it.
  const [email, password] = ['guest@example.com', 'eleven brass cogs']
  const invitation = { organization_id, email }
  t.equal((await guest.client.post('/invitations', invitation)).status, 403)
  const { id } = (await owner.client.post('/invitations', invitation)).body.data
  const accept = ({ client }: Pick<typeof guest, 'client'>) => client.post(`/invitations/${id}/accept`, {})
  t.equal((await accept(guest)).status, 403, 'another address')
  const anybody = createClient(base, {})
  t.equal((await anybody.post('/users', { name: 'Eve', email, password })).status, 201)
  const { access_token, user_id } = (
    await anybody.post('/tokens', { grant_type: 'password', email, password })
  ).body.data
  const eve = createClient(base, { authorization: `Bearer ${access_token}` })
  t.same(getIds(await eve.get('/invitations')), [])
  t.equal((await accept({ client: eve })).status, 403)
  t.equal((await eve.get('/invitations', { accept: 'text/csv' })).text.includes(email), false)
  t.equal((await admin.delete(`/users/${user_id}`)).status, 204)

  t.equal((await admin.patch(`/users/${guest.id}`, { email })).status, 200)
  t.same(getIds(await guest.client.get('/invitations')), [id])
  t.equal((await accept(stranger)).status, 403)
  t.equal((await accept(guest)).status, 201)
  t.equal((await accept(guest)).status, 404, 'once')

  // A member reads and writes, does not invite, and loses sight by leaving.
  t.same(getIds(await guest.client.get('/organizations?include=memberships')), [organization_id])
  t.equal((await guest.client.patch(`/projects/${project.id}`, { name: 'Rocket 2' })).status, 200)
  const another = { ...invitation, email: 'b@example.com' }
  t.equal((await guest.client.post('/invitations', another)).status, 403)
  const own = (await guest.client.get(`/memberships?user_id=${guest.id}`)).body.data
  t.equal((await guest.client.delete(`/memberships/${own[0].id}`)).status, 204)
  t.equal((await guest.client.get(`/projects/${project.id}`)).status, 403)
  t.same(getIds(await guest.client.get('/projects')), [])
})
