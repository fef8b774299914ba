/** An application takes the name of a built-in collection, which has another name then. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { Json } from '../../../testing/helpers/app.ts'
import { declareApplication } from '../../../testing/helpers/application.ts'
import { testFolder } from '../../../testing/helpers/database.ts'

t.setTimeout(240_000)

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const KEY = 'an-admin-key-of-more-than-thirty-two-characters'

/** Starts the server of concerts. @returns its address, or what it has printed if it does not start */
async function start(t: Test, options: string): Promise<string> {
  const flags = ['--conditions=resource-api', '--import=./packages/testing/run/typescript.js']
  const args = [...flags, ...declareApplication(options, false), 'packages/testing/helpers/concerts.ts']
  const env = { PATH: process.env.PATH, LOG_LEVEL: 'error', DATA_DIR: testFolder(t), ADMIN_API_KEY: KEY }
  const child = spawn(process.execPath, args, { cwd: root, env })
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  for await (const line of createInterface(child.stdout)) {
    const url = /Ready at (\S+)/.exec(line)?.[1]
    if (url !== undefined) return url
  }
  await ended
  return errors
}

t.test('with the same name, the start names the option of the built-in collection', async (t) => {
  const errors = await start(t, '')
  t.match(
    errors,
    /events: several resources have the name "events"; give the built-in collection another one: `names: \{ 'events': '\.\.\.' \}` of defineApplication/,
  )
})

t.test('concerts are events, and the feed has another name', async (t) => {
  const url = await start(t, "names: { events: 'changes', 'webhook-endpoints': 'hooks', deliveries: 'sent' }")
  if (!url.startsWith('http')) throw new Error(url)
  const request = async (method: string, path: string, key = KEY, sent?: object) => {
    const headers = { 'x-api-key': key, ...(sent && { 'content-type': 'application/json' }) }
    const body = sent && JSON.stringify(sent)
    const response = await fetch(new URL(path, url), { method, headers, ...(body && { body }) })
    const json: Json = await response.json()
    return { status: response.status, headers: response.headers, body: json }
  }

  const ids: string[] = []
  for (const title of ['Fugue', 'Toccata']) {
    const { status, headers, body } = await request('POST', '/api/v1/events', KEY, { title })
    t.match({ status, body }, { status: 201, body: { data: { title } } })
    t.equal(headers.get('location'), `/api/v1/events/${body.data.id}`)
    ids.push(body.data.id)
  }
  await request('PATCH', `/api/v1/events/${ids[0]}`, KEY, { title: 'Fugue in C' })
  const page = await request('GET', '/api/v1/events?limit=1')
  t.match(page.headers.get('link'), /^<\/api\/v1\/events\?limit=1&cursor=[^>]+>; rel="next"/)
  const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? ''
  t.equal((await request('GET', next)).body.data[0].id, ids[0])
  const typed = await request('GET', `/api/v2/events/${ids[0]}`)
  t.match(typed.body.data, { type: 'events', attributes: { title: 'Fugue in C' } })

  t.comment('the feed answers under its other name')
  const feed = '/api/v1/changes?sort=position&resource_type=events'
  let changes = await request('GET', feed)
  for (let i = 0; i < 100 && changes.body.data.length < 3; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    changes = await request('GET', feed)
  }
  t.equal(changes.status, 200)
  t.match(changes.body.data, [
    { type: 'events.created', resource_type: 'events', resource_id: ids[0], data: { title: 'Fugue' } },
    { type: 'events.created', resource_id: ids[1] },
    { type: 'events.updated', previous: { title: 'Fugue' }, data: { title: 'Fugue in C' } },
  ])
  const [first] = changes.body.data
  t.match((await request('GET', `/api/v1/changes/${first.id}`)).body.data, { id: first.id })
  t.match((await request('GET', `/api/v2/changes/${first.id}`)).body.data, { type: 'changes' })
  const linked = await request('GET', `${feed}&limit=1`)
  t.match(linked.headers.get('link'), /^<\/api\/v1\/changes\?[^>]*cursor=[^>]+>; rel="next"/)
  t.equal((await request('GET', '/api/v1/webhook-endpoints')).status, 404)
  t.equal((await request('GET', '/api/v1/hooks')).status, 200)

  t.comment('scopes and documents have the names')
  const member = await request('POST', '/api/v1/users', KEY, { name: 'Ada', email: 'ada@example.com' })
  t.equal(member.status, 201)
  const document = (await request('GET', '/openapi/v1.json')).body
  t.match(JSON.stringify(document), /"changes:read"/)
  for (const path of ['/events', '/events/{id}', '/changes', '/hooks/{endpoint_id}/sent'])
    t.ok(
      Object.keys(document.paths).some((each) => each.endsWith(path)),
      path,
    )
  const operations = Object.values<Record<string, { operationId?: string }>>(document.paths).flatMap((each) =>
    Object.values(each).flatMap(({ operationId }) => operationId ?? []),
  )
  t.ok(operations.includes('listEvents') && operations.includes('listChanges'))
  t.equal(new Set(operations).size, operations.length, 'no operation id stands twice')
})
