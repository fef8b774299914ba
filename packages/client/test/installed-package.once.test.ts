/** The packed client, installed in an empty project, compiles and runs on Node.js and in a browser. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Client, type Json, testApp } from '../../testing/helpers/app.ts'
import { getSkipReason, openBrowser } from '../../testing/helpers/browser.ts'
import { testFolder } from '../../testing/helpers/database.ts'
import { listen } from '../../testing/helpers/network.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const run = promisify(execFile)
const EMAIL = 'page@example.com'
const PASSWORD = 'nine brass cogs, turning'
const DOCUMENTS = ['packages/client/README.md', 'README.md']

/** The page of an app that uses the package without a bundler. */
const PAGE = `<!doctype html>
<script type="importmap">{ "imports": {
  "@resource-api/client": "/node_modules/@resource-api/client/dist/index.js",
  "eventsource-parser": "/node_modules/eventsource-parser/dist/index.js",
  "openapi-fetch": "/node_modules/openapi-fetch/dist/index.mjs"
} }</script>`

/** The names that the examples of the README use without declaring them. */
const DECLARATIONS = `
import { ApiError, createClient, ValidationError, verifyWebhook } from '@resource-api/client'
import type { ResourceEvent, Tokens, TokenStore } from '@resource-api/client'
declare const client: ReturnType<typeof createClient>
declare const baseUrl: string, apiKey: string, email: string, password: string, id: string, token: string
declare const tokenStore: TokenStore
declare const changes: { name: string }
declare const loadCursor: () => Promise<string | undefined>, saveCursor: (cursor: string) => Promise<void>
declare const handle: (event: ResourceEvent) => Promise<void>
`

/** Returns the examples of the client's README after the first one, as functions. */
function readExamples(): string {
  const text = readFileSync(join(root, 'packages/client/README.md'), 'utf8')
  const [, ...examples] = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, example = '']) => example)
  return (
    DECLARATIONS + examples.map((example, i) => `export async function f${i}() {\n${example}}\n`).join('')
  )
}

/** The document of the project, whose types the package has. */
const DOCUMENT = readFileSync(join(root, 'docs/openapi/v1.json'), 'utf8')

/** Operations with a TypeScript sample that every project has. */
const SAMPLES = ['createToken', 'createUser', 'getUser', 'listEvents', 'updateUser'].map(
  (operationId) => `${operationId}.ts`,
)

/** Writes the TypeScript samples of the project's operations, each into a module of its own. Returns the file names. */
async function writeSamples(folder: string, { get }: Client): Promise<string[]> {
  const { paths } = (await get('/openapi/v1.json')).body
  const operations = Object.values<Json>(paths).flatMap((path) => Object.values<Json>(path))
  return operations.flatMap(({ operationId, 'x-codeSamples': samples = [] }) =>
    samples
      .filter(({ lang }: Json) => lang === 'typescript' && DOCUMENT.includes(`"${operationId}"`))
      .map(({ source }: Json) => {
        const name = `${operationId}.ts`
        writeFileSync(join(folder, name), source)
        return name
      }),
  )
}

/** Returns the first lines that a document shows. */
function readFirstLines(name: string): string {
  const text = readFileSync(join(root, name), 'utf8')
  return /```ts\n(import \{ createClient \}[\s\S]*?)```/.exec(text)?.[1] ?? ''
}

/** Packs the client and its dependencies, and installs them without a registry. */
async function installPackage(folder: string) {
  const pack = async (path: string, ...options: string[]) => {
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder, ...options], {
      cwd: join(root, path),
    })
    // The scripts of the package print lines in front of the JSON.
    const [{ filename, files }] = JSON.parse(stdout.slice(stdout.search(/^\[/m)))
    return { filename: String(filename), files: files.map(({ path: name }: { path: string }) => name) }
  }
  // Its script builds it, also within a command that runs without scripts.
  const client = await pack('packages/client', '--ignore-scripts=false')
  const dependencies = await Promise.all(
    ['eventsource-parser', 'openapi-fetch', 'openapi-typescript-helpers'].map((name) =>
      pack(`node_modules/${name}`, '--ignore-scripts'),
    ),
  )
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  const names = [client, ...dependencies].map(({ filename }) => `./${filename}`)
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--ignore-scripts', ...names], {
    cwd: folder,
  })
  return client.files
}

t.test('the installed package', async (t) => {
  const folder = testFolder(t)
  const files = await installPackage(folder)
  const pageServer = createServer((request, response) => {
    const isScript = /\.m?js$/.test(request.url ?? '')
    response.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html')
    response.end(isScript ? readFileSync(join(folder, request.url ?? '')) : PAGE)
  })
  const origin = `http://127.0.0.1:${await listen(pageServer)}`
  t.teardown(() => {
    pageServer.closeAllConnections()
    pageServer.close()
  })
  const { base, admin, anybody } = await testApp(t, { CORS_ORIGINS: origin })
  const code = readFirstLines('packages/client/README.md')
    .replace('http://localhost:3000', base)
    .replace('YOUR_API_KEY', ADMIN_KEY)

  await t.test('has the compiled files, the README and the license', async (t) => {
    t.same(
      files.filter((name: string) => !name.startsWith('dist/')),
      ['LICENSE', 'README.md', 'package.json'],
    )
    t.same(
      files.filter((name: string) => !/^dist\/[\w-]+(\.d\.ts|\.js)$|^[A-Z]|^package\.json$/.test(name)),
      [],
    )
    t.same(
      readdirSync(join(folder, 'node_modules'))
        .filter((name) => !name.startsWith('.'))
        .sort(),
      ['@resource-api', 'eventsource-parser', 'openapi-fetch', 'openapi-typescript-helpers'],
    )
  })

  await t.test('compiles with two versions of TypeScript, in the strictest settings', async (t) => {
    writeFileSync(join(folder, 'main.ts'), code)
    writeFileSync(join(folder, 'examples.ts'), readExamples())
    const samples = await writeSamples(folder, anybody)
    t.same(
      SAMPLES.filter((name) => !samples.includes(name)),
      [],
    )
    const options = ['--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--lib', 'es2022,dom']
    for (const compiler of ['packages/create/node_modules/.bin/tsc', 'node_modules/.bin/tsc']) {
      const args = [...options, '--module', 'nodenext', '--noEmit', 'main.ts', 'examples.ts', ...samples]
      const compiled = run(join(root, compiler), args, { cwd: folder })
      const { code = 0, stdout } = await compiled.catch((error) => error)
      t.same({ code, stdout }, { code: 0, stdout: '' }, compiler)
    }
  })

  await t.test('runs on Node.js, and the documents show the same lines', async (t) => {
    for (const name of DOCUMENTS)
      t.equal(readFirstLines(name), readFirstLines('packages/client/README.md'), name)
    writeFileSync(join(folder, 'main.js'), code)
    const { stdout } = await run(process.execPath, ['main.js'], { cwd: folder })
    t.equal(stdout, 'Ada Lovelace\nada@example.com Ada\n')
  })

  await t.test('runs in a browser on a page of another origin', { skip: getSkipReason() }, async (t) => {
    await admin.post('/api/v1/users', { name: 'Ada', email: EMAIL, password: PASSWORD })
    const page = await (await openBrowser(t)).newPage()
    await page.goto(origin)
    const script = `(async () => {
      const { createClient, ValidationError } = await import('@resource-api/client')
      const client = createClient({
        baseUrl: '${base}',
        signIn: { email: '${EMAIL}', password: '${PASSWORD}' },
        cacheSize: 10,
      })
      const { id, email } = await client.users.get('me')
      const edited = await client.users.edit(id, ({ name }) => ({ name: name + ' Lovelace' }))
      const profile = await client.userProfiles.create({ display_name: 'First' })
      const list = await client.userProfiles.list({ user_id: id }).toArray()
      const { status, requestId, etag } = await client.userProfiles.get(profile.id).withResponse()
      const { display_name } = await client.userProfiles.get(profile.id)
      const error = await client.userProfiles.create({ display_name: '' }).catch((reason) => reason)
      await client.signOut()
      return {
        texts: [email, edited.name, display_name, ...list.map((each) => each.display_name)], status,
        is: [requestId !== null, etag !== null, error instanceof ValidationError], fields: error.fields,
      }
    })()`
    t.match(await page.evaluate(script), {
      texts: [EMAIL, 'Ada Lovelace', 'First', 'First'],
      ...{ status: 200, is: [true, true, true], fields: [{ field: 'display_name', code: 'TOO_SHORT' }] },
    })
  })
})
