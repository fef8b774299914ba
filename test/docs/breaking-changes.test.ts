/** `npm run openapi:diff` reports changes of the OpenAPI documents that break clients. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findBreakingChanges } from '../../scripts/breaking-changes.ts'
import type { Json } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const PRODUCTS = '/api/v1/products'
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const PRICE = { price: { type: 'integer' } }
const NULLABLE = { type: ['string', 'null'] }
const NOT_NULL = { type: 'string' }
const json = (schema: Json) => ({ content: { 'application/json': { schema } } })

/** Creates a document like those of the server, with one path. */
const createDocument = (): Json => ({
  openapi: '3.1.0',
  info: { title: 'resource-api', version: '0.1.0' },
  paths: {
    [PRODUCTS]: {
      get: {
        operationId: 'listProducts',
        parameters: [
          { in: 'query', name: 'limit', schema: { type: 'integer', maximum: 100 } },
          { in: 'query', name: 'status', schema: { type: 'string', enum: ['draft', 'active'] } },
        ],
        responses: { 200: { description: 'A page', ...json({ type: 'array', items: ref('Product') }) } },
      },
      post: {
        operationId: 'createProduct',
        requestBody: { required: true, ...json(ref('ProductCreate')) },
        responses: {
          201: { description: 'Created', ...json(ref('Product')) },
          422: { description: 'Invalid', ...json(ref('Error')) },
        },
      },
    },
  },
  components: {
    schemas: {
      Product: {
        type: 'object',
        required: ['id', 'name', 'status'],
        properties: {
          id: { type: 'string' },
          name: { type: 'string' },
          note: { type: ['string', 'null'] },
          status: { type: 'string', enum: ['draft', 'active'] },
        },
      },
      ProductCreate: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string', maxLength: 200 },
          stock: { type: 'integer', default: 0 },
          status: { type: 'string', enum: ['draft', 'active'] },
        },
      },
      Error: {
        type: 'object',
        properties: {
          error: { type: 'object', properties: { code: { type: 'string', enum: ['INVALID'] } } },
        },
      },
    },
  },
})

type Change = [string, (document: Json, schemas: Json) => void]

const BREAKING: Change[] = [
  ['an operation is removed', ({ paths }) => delete paths[PRODUCTS].post],
  ['an operation is renamed', ({ paths }) => Object.assign(paths[PRODUCTS].post, { operationId: 'add' })],
  ['a parameter is removed', ({ paths }) => paths[PRODUCTS].get.parameters.pop()],
  ['a parameter accepts less', ({ paths }) => paths[PRODUCTS].get.parameters[1].schema.enum.pop()],
  ['a body needs a field', (_, schemas) => schemas.ProductCreate.required.push('stock')],
  ['a body loses a field', (_, schemas) => delete schemas.ProductCreate.properties.stock],
  ['a body has fewer values', (_, schemas) => schemas.ProductCreate.properties.status.enum.pop()],
  ['a body has shorter texts', (_, schemas) => --schemas.ProductCreate.properties.name.maxLength],
  ['a response loses a field', (_, schemas) => delete schemas.Product.properties.name],
  ['a field of a response is optional', (_, schemas) => schemas.Product.required.pop()],
  ['a response may have null', (_, { Product }) => Object.assign(Product.properties.name, NULLABLE)],
  ['a response has a new value', (_, { Product }) => Product.properties.status.enum.push('sold')],
]

const COMPATIBLE: Change[] = [
  ['nothing changes', () => undefined],
  ['an operation is new', ({ paths }) => Object.assign(paths, { '/api/v1/teas': paths[PRODUCTS] })],
  ['a parameter is new', ({ paths }) => paths[PRODUCTS].get.parameters.push({ in: 'query', name: 'new' })],
  ['a body has an optional field', (_, schemas) => Object.assign(schemas.ProductCreate.properties, PRICE)],
  ['a response has a field', (_, schemas) => Object.assign(schemas.Product.properties, PRICE)],
  ['a response is never null', (_, { Product }) => Object.assign(Product.properties.note, NOT_NULL)],
  ['an error has a code', (_, schemas) => schemas.Error.properties.error.properties.code.enum.push('NEW')],
  ['a description is new', ({ paths }) => Object.assign(paths[PRODUCTS].get, { description: 'New' })],
  [
    'a definition becomes a component',
    (_, schemas) => {
      schemas.Status = schemas.Product.properties.status
      for (const name of ['Product', 'ProductCreate']) schemas[name].properties.status = ref('Status')
    },
  ],
  [
    'a parameter becomes one of the path',
    ({ paths }) => {
      paths[PRODUCTS].parameters = [paths[PRODUCTS].get.parameters.pop()]
    },
  ],
]

t.test('changes that break clients are found, others are not', async (t) => {
  for (const [cases, isExpected] of [
    [BREAKING, true],
    [COMPATIBLE, false],
  ] as const) {
    for (const [name, change] of cases) {
      const after = createDocument()
      change(after, after.components.schemas)
      const changes = findBreakingChanges(createDocument(), after)
      t.equal(changes.length > 0, isExpected, `${name}: ${changes.join('; ')}`)
    }
  }
})

t.test('breaking changes since the last release must be announced', async (t) => {
  const folder = testFolder(t)
  const env = {
    ...{ PATH: process.env.PATH ?? '', GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
    ...{ GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' },
    ...{ GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' },
  }
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, env })
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
  const setVersion = (version: string) => write('package.json', JSON.stringify({ version }))
  const setUnreleased = (text: string) => write('CHANGELOG.md', `# Changelog\n\n## [Unreleased]\n\n${text}\n`)
  const compare = () => {
    const args = [
      `--import=${import.meta.resolve('../helpers/typescript.js')}`,
      `${root}scripts/openapi-diff.ts`,
    ]
    const options = { cwd: folder, env, encoding: 'utf8' } as const
    const { status, stdout, stderr } = spawnSync(process.execPath, args, options)
    return { status, output: stdout + stderr }
  }
  mkdirSync(join(folder, 'docs/openapi'), { recursive: true })
  const document = createDocument()
  for (const name of ['v1', 'v2']) write(`docs/openapi/${name}.json`, JSON.stringify(document))
  setVersion('0.1.0')
  setUnreleased('- News.')
  git('init', '--quiet')
  git('add', '--all')
  git('commit', '--quiet', '--message', 'first')
  t.match(compare(), { status: 0, output: 'There is no release tag yet' })
  git('tag', 'v0.1.0')
  t.match(compare(), { status: 0, output: '0 breaking changes since v0.1.0' })

  delete document.paths[PRODUCTS].post
  write('docs/openapi/v1.json', JSON.stringify(document))
  t.match(compare(), {
    status: 1,
    output: /1 breaking changes since v0\.1\.0\n- POST \/api\/v1\/products: /,
  })
  setUnreleased('### Breaking\n\n- Products are read-only.')
  t.match(compare(), { status: 0, output: /announces them/ })
  setUnreleased('- News.')
  setVersion('0.2.0')
  t.equal(compare().status, 0)
})
