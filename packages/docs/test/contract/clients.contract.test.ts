/** The clients of two generators compile strictly, and run scripts against a fresh server. */
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import type { Json } from '../../../testing/helpers/app.ts'
import { ADMIN, saveDocument, startFreshServer } from './documents.ts'
import { folder, runTool } from './run-tool.ts'

const PRODUCTS = 250

async function create(url: string, body: unknown): Promise<Json> {
  const headers = { 'x-api-key': ADMIN.key, 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`POST ${url}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Creates the products in groups, so that no limit of concurrency is met. */
async function createProducts(baseUrl: string) {
  const products = Array.from({ length: PRODUCTS }, (_, i) => ({
    sku: `P-${i}`,
    name: `Product ${i}`,
    price_amount: i,
  }))
  while (products.length > 0) {
    await Promise.all(products.splice(0, 10).map((product) => create(`${baseUrl}/api/v1/products`, product)))
  }
}

async function createLimitedKey(baseUrl: string): Promise<string> {
  const reply = await create(`${baseUrl}/api/v1/api-keys`, {
    name: 'limited',
    scopes: ['products:read'],
    rate_limit: 3,
  })
  return reply.data.key
}

/** Imports a file that refers to generated code. */
const importClient = (name: string) => import(pathToFileURL(join(folder, 'clients', `${name}.ts`)).href)

t.test('the clients of two generators', async (t) => {
  rmSync(join(folder, '.generated/clients'), { recursive: true, force: true })
  const baseUrl = await startFreshServer(t)
  await createProducts(baseUrl)

  for (const version of ['v1', 'v2'] as const) {
    const document = await saveDocument(baseUrl, version, 'clients')
    const output = dirname(document)
    for (const [tool, ...args] of [
      ['openapi-typescript', document, '-o', join(output, 'openapi-typescript.ts')],
      ['openapi-ts', '-f', 'tools/hey-api.config.ts'],
    ] as const) {
      const { code, output: text } = await runTool(tool, args, { DOCUMENT: document, OUTPUT: output })
      t.equal(code, 0, `${tool} generates a client of ${version}`, { text })
    }
  }

  const compiled = await runTool('../../../../../../node_modules/.bin/tsc', ['-p', '.', '--noEmit'])
  t.strictSame(compiled, { code: 0, output: '' }, 'all clients compile strictly')

  const { converse } = await importClient('hey-api')
  const limited = { 'X-API-Key': await createLimitedKey(baseUrl) }
  t.strictSame(
    await converse(baseUrl, ADMIN.email, ADMIN.password, limited),
    {
      listed: { pages: 3, count: PRODUCTS },
      created: 201,
      repeated: { status: 201, isReplayed: 'true', isSame: true },
      invalid: { status: 422, code: 'VALIDATION_ERROR', fields: ['currency INVALID_FORMAT'] },
      price: 1999,
      changed: { status: 200, stock: 25 },
      stale: { status: 412, code: 'PRECONDITION_FAILED', fields: [] },
      limited: { code: 'RATE_LIMIT_EXCEEDED', hasRetryAfter: true },
    },
    'the script with the client of Hey API',
  )

  const { converse: converseTyped } = await importClient('openapi-fetch-v2')
  t.strictSame(
    await converseTyped(baseUrl, ADMIN.key),
    {
      price: 1999,
      violations: ['data.attributes.price_amount OUT_OF_RANGE'],
      mistaken: 409,
      name: 'Oolong',
      kept: 304,
      total: 1,
      stock: 25,
      stale: 412,
      replaced: 25,
      owner: ADMIN.email,
      products: ['OOLONG-V2'],
      removed: 409,
    },
    'a script with the client of version 2',
  )

  const { checkUpdates } = await importClient('zod-updates')
  t.strictSame(
    await checkUpdates(baseUrl, { 'X-API-Key': ADMIN.key }),
    {
      changed: [],
      address: 'Ada',
      note: 'leave at the door',
    },
    'a PATCH of the Zod client sends exactly what was given',
  )
})
