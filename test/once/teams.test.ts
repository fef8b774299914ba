/**
 * The commands of docs/teams.md, pasted in a clone, build organizations, memberships, projects and invitations. Only
 * members see projects, an owner invites and adds no user, and a member who leaves loses sight, in an open stream too.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import t from 'tap'
import { ADMIN_KEY, createClient, type Json, UNKNOWN_ID } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'
import { openStream } from '../helpers/events.ts'
import { getIds } from '../helpers/replies.ts'
import { waitUntil } from '../helpers/time.ts'
import { cloneProduct, linkPackages, root, runIn } from './git-clone.ts'
import { getTestArguments, TEST_OPTIONS } from './repository-copy.ts'

t.setTimeout(1_800_000)
// The migrations of the clone have other times in each run. A server would keep a template database for each.
delete process.env.DATABASE_URL

const clone = join(testFolder(t), 'teams')
const page = readFileSync(join(root, 'docs/teams.md'), 'utf8')

const GENERATED = ['organizations', 'memberships', 'projects', 'invitations']
/** Tests of all resources, which take bodies from their examples and rows from their rules. */
const OF_ALL = ['access-matrix', 'row-access', 'request-examples']

/** Starts the app of the clone with three members, and prints their credentials. It ends with its standard input. */
const APP = `
  import { testApp } from './test/helpers/app.ts'
  const teardowns = []
  const { base, person } = await testApp({ teardown: (undo) => teardowns.unshift(undo) }, { ALLOW_SIGNUP: 'true' })
  const people = [await person('member'), await person('member'), await person('member')]
  console.log(JSON.stringify({ base, people: people.map(({ id, key }) => ({ id, key })) }))
  process.stdin.resume().once('end', async () => {
    for (const undo of teardowns) await undo()
  })
`

async function startApp(): Promise<{ base: string; people: { id: string; key: string }[] }> {
  const args = [...TEST_OPTIONS, '--input-type=module', '--eval', APP]
  const child = spawn(process.execPath, args, { cwd: clone, stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.stdin.end()
    await closed
  })
  for await (const line of createInterface(child.stdout)) return JSON.parse(line)
  throw new Error('The app of the clone did not start')
}

t.test('the commands of the page build it, and the tests of its resources are green', async (t) => {
  cloneProduct(clone)
  linkPackages(clone)
  const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  t.equal(blocks.length, 4)
  for (const block of blocks) {
    const { code, output } = runIn(clone, 'bash', '-euc', block)
    t.equal(code, 0, code === 0 ? block.slice(0, 80) : output.slice(-3000))
  }
  const { code, output } = runIn(clone, process.execPath, ...getTestArguments([...GENERATED, ...OF_ALL]))
  t.same(code === 0 ? [] : (output.match(/^ *not ok.*/gm) ?? output.slice(-3000)), [])
})

t.test('only members see projects, an owner invites, and a member who leaves loses sight', async (t) => {
  const { base, people } = await startApp()
  const admin = createClient(base, { 'x-api-key': ADMIN_KEY })
  const [owner, guest, stranger] = people.map(({ id, key }) => ({
    id,
    key,
    client: createClient(base, { 'x-api-key': key }),
  }))
  if (!owner || !guest || !stranger) throw new Error('There are three people')
  const { id: organization_id } = (await owner.client.post('/organizations', { name: 'Acme' })).body.data
  const own = (await owner.client.get('/memberships')).body.data
  t.match(own, [{ organization_id, user_id: owner.id, role: 'owner' }])
  const written = await owner.client.post('/projects', { organization_id, name: 'Rocket' })
  const project: Json = written.body.data
  t.equal(written.status, 201)
  for (const { client } of [guest, stranger]) {
    t.same(getIds(await client.get('/projects')), [])
    t.same(getIds(await client.get('/organizations')), [])
    t.equal((await client.get(`/projects/${project.id}`)).status, 403)
    const foreign = await client.post('/projects', { organization_id, name: 'Mine' })
    t.equal(foreign.status, 403)
  }

  // An owner adds no user, and does not learn which ids exist.
  for (const user_id of [guest.id, UNKNOWN_ID]) {
    const body = { organization_id, user_id }
    const operations = [{ method: 'POST', path: '/memberships', body }]
    const added = [
      await owner.client.post('/memberships', body),
      await owner.client.post('/memberships', `${JSON.stringify(body)}\n`, {
        'content-type': 'application/x-ndjson',
      }),
    ]
    for (const { status } of added) t.equal(status, 403)
    const batch = await owner.client.post('/batches', { operations })
    t.equal(batch.status, 422)
    t.match(batch.body.error.details, [{ field: 'operations.0.path', code: 'FORBIDDEN' }])
  }
  const { id: ownId } = own[0]
  const moved = await owner.client.patch(`/memberships/${ownId}`, { user_id: guest.id })
  t.equal(moved.status, 422, 'a membership stays that of its user')

  // The invitation: by an owner alone, and seen by the user with the verified address.
  const email = 'guest@example.com'
  const invitation = { organization_id, email }
  t.equal((await guest.client.post('/invitations', invitation)).status, 403)
  const { id: invitationId } = (await owner.client.post('/invitations', invitation)).body.data
  const accept = ({ client }: typeof guest) => client.post(`/invitations/${invitationId}/accept`, {})
  t.equal((await accept(guest)).status, 403, 'another address')

  // An address that is only entered sees nothing.
  const anybody = createClient(base, {})
  const password = 'eleven brass cogs'
  t.equal((await anybody.post('/users', { name: 'Eve', email, password })).status, 201)
  const token = await anybody.post('/tokens', { grant_type: 'password', email, password })
  const { access_token, user_id: eveId } = token.body.data
  const eve = createClient(base, { authorization: `Bearer ${access_token}` })
  t.equal((await eve.get('/users/me')).body.data.email_verified_at, null)
  t.same(getIds(await eve.get('/invitations')), [])
  t.equal((await eve.get(`/invitations/${invitationId}`)).status, 403)
  t.equal((await eve.post(`/invitations/${invitationId}/accept`, {})).status, 403)
  t.same((await eve.get('/events?resource_type=invitations')).body.data, [])
  t.equal((await eve.get('/invitations', { accept: 'text/csv' })).text.includes(email), false)
  t.equal((await admin.delete(`/users/${eveId}`)).status, 204)

  t.equal((await admin.patch(`/users/${guest.id}`, { email })).status, 200)
  t.same(getIds(await guest.client.get('/invitations')), [invitationId])
  t.same(getIds(await stranger.client.get('/invitations')), [])
  t.equal((await accept(stranger)).status, 403)
  t.equal((await accept(guest)).status, 201)
  t.equal((await accept(guest)).status, 404, 'once')

  // A member reads and writes, and does not invite.
  t.same(getIds(await guest.client.get('/projects')), [project.id])
  t.same(getIds(await guest.client.get('/organizations?include=memberships')), [organization_id])
  t.equal((await guest.client.patch(`/projects/${project.id}`, { name: 'Rocket 2' })).status, 200)
  const refused = await guest.client.post('/invitations', { ...invitation, email: 'b@example.com' })
  t.equal(refused.status, 403)
  const open = ({ key }: typeof guest) =>
    openStream(t, { base }, { headers: { 'x-api-key': key }, path: '/events?resource_type=projects' })
  const [theirs, others] = [await open(guest), await open(owner)]
  // A stream may begin with changes from just before it was opened.
  const hasEvent = ({ events }: typeof theirs, name: string) =>
    events.some((event) => JSON.stringify(event).includes(name))
  await owner.client.patch(`/projects/${project.id}`, { name: 'Rocket 3' })
  await waitUntil(() => hasEvent(theirs, 'Rocket 3'))

  // A member who leaves loses sight, and the stream that is open sends nothing more.
  const memberships = (await guest.client.get(`/memberships?user_id=${guest.id}`)).body.data
  t.equal((await guest.client.delete(`/memberships/${memberships[0].id}`)).status, 204)
  await waitUntil(async () => (await guest.client.get(`/projects/${project.id}`)).status === 403)
  t.same(getIds(await guest.client.get('/projects')), [])
  t.equal((await guest.client.get('/projects', { accept: 'text/csv' })).text.includes(project.id), false)
  await owner.client.patch(`/projects/${project.id}`, { name: 'Rocket 4' })
  await waitUntil(() => hasEvent(others, 'Rocket 4'))
  await theirs.waitForComment()
  t.equal(hasEvent(theirs, 'Rocket 4'), false)
  t.same((await guest.client.get(`/events?resource_id=${project.id}`)).body.data, [])
})
