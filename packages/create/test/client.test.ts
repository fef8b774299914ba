/** `resource-api client` writes the typed client of any application, from the document that its server returns. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Type } from '@sinclair/typebox'
import t, { type Test } from 'tap'
import { Id, Text } from '../../api/src/schemas/types.ts'
import { ADMIN_KEY, testApp } from '../../testing/helpers/app.ts'
import { testDatabase, testFolder } from '../../testing/helpers/database.ts'
import { listen } from '../../testing/helpers/network.ts'
import { createNotesTable, resourcesWithNotes } from '../../testing/helpers/notes.ts'
import { type Actions, withActions } from '../../testing/helpers/serve.ts'
import { createClientFile } from '../src/client/command.ts'
import { UsageError } from '../src/usage-error.ts'

const root = new URL('../../../', import.meta.url).pathname
const DOCUMENT = readFileSync(join(root, 'docs/openapi/v1.json'), 'utf8')

/** Makes a project that has the package of the client. */
function createProject(t: Test): string {
  const folder = testFolder(t)
  mkdirSync(join(folder, 'node_modules/@resource-api'), { recursive: true })
  symlinkSync(join(root, 'packages/client'), join(folder, 'node_modules/@resource-api/client'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  return folder
}

/** Runs the command in a folder. */
async function runClient(folder: string, ...args: string[]) {
  const loader = ['--conditions=resource-api', `--import=${join(root, 'packages/testing/run/typescript.js')}`]
  const program = join(root, 'packages/create/src/cli.ts')
  const child = spawn(process.execPath, [...loader, program, 'client', ...args], { cwd: folder })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += chunk
    })
  const [code] = await once(child, 'close')
  return { code, output }
}

async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${await listen(server)}`
}

const PROGRAM = `import { createClient, type Resource, ValidationError } from './client.ts'

export const client = createClient({ baseUrl: 'http://localhost:3000', apiKey: 'key' })
export type Note = Resource<'/api/v1/users/{user_id}/notes'>
const { title } = await client.users.notes('me').create({ title: 'First', body: 'Text' })
for await (const note of client.users.notes('me').list({ fields: ['title'], sort: ['-title'] })) note.title.trim()
await client.batch([client.users.notes('me').batch.create({ title, body: 'Text' })]).catch((error) => {
  if (!(error instanceof ValidationError)) throw error
})
for await (const { event } of client.events.stream({ type: 'notes.*' })) event.type.trim()
const { data } = await client.http.GET('/api/v1/users/{user_id}/notes', { params: { path: { user_id: 'me' } } })
data?.data[0]?.title?.trim()
const retitled = await client.users.notes('me').retitle('id', { title: 'Second' }, { ifMatch: '"1"', dryRun: true })
retitled.status.trim()
await client.products.discontinue('id')
await client.products.discontinue('id', {}, { idempotencyKey: 'key' })
const { text } = await client.products.exports('id', { format: 'csv' })
text.trim()
// @ts-expect-error: the action needs a title
await client.users.notes('me').retitle('id', {})
// @ts-expect-error: the action has no field
await client.products.discontinue('id', { at: 1 })
// @ts-expect-error: batches do not write API keys
client.apiKeys.batch
// @ts-expect-error: nor are they imported
client.apiKeys.import
// @ts-expect-error: notes have no such field
await client.users.notes('me').create({ name: 'First', body: 'Text' })
// @ts-expect-error: nor can it be selected
client.users.notes('me').list({ fields: ['name'] })
// @ts-expect-error: there is no such collection
client.papers
// @ts-expect-error: an event is not written
client.events.create({})
// @ts-expect-error: only webhook endpoints have secrets
client.users.createSecret('id')
`

const texts = { description: 'Does it.', access: { admin: true } } as const
const actions: Readonly<Record<string, Actions>> = {
  notes: {
    retitles: {
      ...{ ...texts, operationId: 'retitleNote', summary: 'Retitle a note' },
      body: Type.Object({ title: Text({ examples: ['Second'] }) }, { title: 'NoteRetitle' }),
      run: ({ store, current, body }) => store.update(current, body),
    },
  },
  products: {
    discontinuations: {
      ...{ ...texts, operationId: 'discontinueProduct', summary: 'Discontinue a product' },
      run: ({ store, current }) => store.update(current, { status: 'archived' }),
    },
    exports: {
      ...{ ...texts, operationId: 'exportProduct', summary: 'Export a product' },
      body: Type.Object({ format: Type.Optional(Text({ examples: ['csv'] })) }, { title: 'ProductFormat' }),
      response: Type.Object({ id: Id(), text: Text({ examples: ['Tea'] }) }, { title: 'ProductText' }),
      run: async ({ current: { id, name }, body: { format = 'text' } }) => ({
        id,
        text: `${format}: ${name}`,
      }),
    },
  },
}

t.test('the client of a running server has its collections and their types', async (t) => {
  const database = await testDatabase(t)
  await createNotesTable(database)
  const resources = resourcesWithNotes.map((each) => withActions(each, actions[each.collection.name] ?? {}))
  const { base, person } = await testApp(t, {}, { database, resources })
  const folder = createProject(t)
  t.match(await runClient(folder, '--url', base, '--output', 'src/client.ts'), {
    code: 0,
    output: 'Wrote src/client.ts',
  })
  writeFileSync(join(folder, 'src/main.ts'), PROGRAM)

  await t.test('a program compiles, and a wrong use of it does not', async (t) => {
    const options = ['--strict', '--exactOptionalPropertyTypes', '--verbatimModuleSyntax', '--noEmit']
    const modules = [
      '--module',
      'nodenext',
      '--allowImportingTsExtensions',
      '--customConditions',
      'resource-api',
    ]
    const types = ['--target', 'es2023', '--lib', 'es2023,dom,dom.asynciterable', '--skipLibCheck']
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const args = [tsc, ...options, ...modules, ...types, 'src/main.ts']
    const compiled = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
      (error) => error,
    )
    t.same([compiled.stdout, compiled.stderr, compiled.code], ['', '', undefined])
  })

  await t.test('it calls the server', async (t) => {
    const { createClient, ConflictError } = await import(pathToFileURL(join(folder, 'src/client.ts')).href)
    const client = createClient({ baseUrl: base, apiKey: ADMIN_KEY })
    const { id } = await person('member')
    const created = await client.users.notes(id).create({ title: 'First', body: 'Text' })
    t.match(await client.users.notes(id).list().toArray(), [{ id: created.id, title: 'First' }])
    const note = await client.users.notes(id).retitle(created.id, { title: 'Second' })
    t.match(note, { id: created.id, title: 'Second', status: 'draft' })
    const { id: productId } = await client.products.create({ sku: 'ACTION', name: 'Tea', price_amount: 1 })
    t.match(await client.products.discontinue(productId, {}, { dryRun: true }), { status: 'archived' })
    t.match(await client.products.get(productId), { status: 'draft' })
    const stale = client.products.discontinue(productId, {}, { ifMatch: '"9"' })
    await t.rejects(stale, { code: 'PRECONDITION_FAILED' })
    t.match(await client.products.discontinue(productId), { status: 'archived' })
    t.match(await client.products.exports(productId), { text: 'text: Tea' })
    await client.products.delete(productId)
    t.match(await client.products.aggregate({ measures: ['count'] }), [{ count: 0 }])
    const stream = client.events.stream({ type: 'users.*' })[Symbol.asyncIterator]()
    let hasEvent = false
    const first = stream.next().finally(() => {
      hasEvent = true
    })
    // The stream begins when it is connected.
    for (let i = 0; !hasEvent; i++) await client.users.update(id, { name: `Ada ${i}` })
    t.match(await first, { value: { event: { type: 'users.updated', resource_id: id } } })
    await stream.return()
    const email = 'ada@example.com'
    await client.users.create({ name: 'Ada', email })
    await t.rejects(client.users.create({ name: 'Ada', email }), ConflictError)
  })

  await t.test('it is written again, but another file is left alone', async (t) => {
    const before = readFileSync(join(folder, 'src/client.ts'), 'utf8')
    t.equal((await runClient(folder, '--url', `${base}/`, '--output', 'src/client.ts')).code, 0)
    t.equal(readFileSync(join(folder, 'src/client.ts'), 'utf8'), before)
    t.match(await runClient(folder, '--url', base, '--output', 'src/main.ts'), {
      code: 2,
      output: 'this command has not written it',
    })
    t.equal(readFileSync(join(folder, 'src/main.ts'), 'utf8'), PROGRAM)
  })
})

t.test('a feed of another name has the stream', async (t) => {
  const document = DOCUMENT.replaceAll('/api/v1/events', '/api/v1/changes')
  const url = await serve(t, ({ url: path }, response) => {
    response.statusCode = path === '/base/openapi/v1.json' ? 200 : 404
    response.end(document)
  })
  const folder = createProject(t)
  t.equal((await runClient(folder, '--url', `${url}/base`, '--output', 'client.ts')).code, 0)
  const text = readFileSync(join(folder, 'client.ts'), 'utf8')
  t.match(/type Unbatched = (.*)/.exec(text)?.[1], "'/api/v1/changes'")
  const { createClient } = await import(pathToFileURL(join(folder, 'client.ts')).href)
  const urls: string[] = []
  const fetch = async (address: string) => {
    urls.push(address)
    return new Response('{"error":{"code":"FORBIDDEN","message":"No"}}', { status: 403 })
  }
  const client = createClient({ baseUrl: url, apiKey: 'key', fetch })
  await t.rejects(client.changes.stream()[Symbol.asyncIterator]().next(), { code: 'FORBIDDEN' })
  await t.rejects(client.webhookEndpoints.createSecret('1'), { code: 'FORBIDDEN' })
  await t.rejects(client.webhookEndpoints.deliveries('1').list().page(), { code: 'FORBIDDEN' })
  t.same(
    urls.map((each) => each.slice(url.length)),
    ['/api/v1/changes', '/api/v1/webhook-endpoints/1/secrets', '/api/v1/webhook-endpoints/1/deliveries'],
  )
})

t.test('what is wrong is said, and no file is written', async (t) => {
  const folder = createProject(t)
  const bodies: Record<string, string> = {
    '/html': '<!doctype html>',
    '/other': '{"openapi": "3.1.0", "paths": {"/pets": {}}}',
    '/foreign': DOCUMENT.replace('"$ref": "#/', '"$ref": "file:///etc/'),
    '/large': ' '.repeat(33 * 1024 * 1024),
  }
  const url = await serve(t, ({ url: path = '' }, response) => {
    const body = bodies[path.replace('/openapi/v1.json', '')]
    response.statusCode = body === undefined ? 404 : 200
    response.end(body)
  })
  const cases: [string[], 1 | 2, string | RegExp][] = [
    [[], 2, '--output: name a file'],
    [['--output', 'client.js'], 2, '--output: name a file'],
    [['--output', 'client.ts', '--uri', url], 2, "Unknown option '--uri'"],
    [['--output', 'client.ts'], 2, 'run the command in the folder of an application, or name a server'],
    [['--output', 'client.ts', '--url', 'file:///etc/passwd'], 2, 'is not the URL of a server'],
    [
      ['--output', 'client.ts', '--url', 'http://127.0.0.1:1'],
      1,
      /Cannot read http:\/\/127\.0\.0\.1:1\/openapi\/v1\.json: .+/,
    ],
    [['--output', 'client.ts', '--url', `${url}/none`], 1, 'the response has the status 404'],
    [['--output', 'client.ts', '--url', `${url}/html`], 1, 'is not JSON'],
    [['--output', 'client.ts', '--url', `${url}/other`], 1, 'is not the OpenAPI document of version 1'],
    [['--output', 'client.ts', '--url', `${url}/foreign`], 1, 'refers to other documents'],
    [['--output', 'client.ts', '--url', `${url}/large`], 1, 'more than 32 MiB'],
  ]
  for (const [args, code, message] of cases) {
    const error = await createClientFile(args, folder).catch((reason) => reason)
    t.match(error.message, message, args.join(' '))
    t.equal(error instanceof UsageError || error.code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1, code)
    t.notOk(existsSync(join(folder, 'client.ts')))
  }
  t.match(await runClient(folder, '--output', 'client.ts', '--uri', url), {
    code: 2,
    output: "Unknown option '--uri'",
  })
})
