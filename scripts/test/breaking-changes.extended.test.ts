/** `npm run openapi:diff` reports changes of the OpenAPI documents that break clients. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type Json, testApp } from '../../packages/testing/helpers/app.ts'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { findBreakingChanges } from '../breaking-changes.ts'

const script = fileURLToPath(new URL('../openapi-diff.ts', import.meta.url))
const PRODUCTS = '/api/v1/products'
const { anybody } = await testApp(t)
const { text: whole } = await anybody.get('/openapi/v1.json')

/** The statuses whose responses a case changes. */
const COMPARED = ['200', '201', '422']

/** Returns the document of version 1 with the path of products alone, without the responses that no case changes. */
function createDocument(): Json {
  const document = JSON.parse(whole)
  const path = document.paths[PRODUCTS]
  for (const { responses } of [path.get, path.post])
    for (const status of Object.keys(responses)) if (!COMPARED.includes(status)) delete responses[status]
  return { ...document, paths: { [PRODUCTS]: path } }
}

const set = Object.assign
const breaking: Record<string, (parts: Json) => void> = {
  'an operation is removed': ({ operations }) => delete operations.post,
  'an operation is renamed': ({ post }) => set(post, { operationId: 'add' }),
  'a body needs a field': ({ create }) => create.required.push('stock'),
  'a response loses a field': ({ product }) => delete product.properties.name,
  'a field may be null': ({ product }) => set(product.properties.name, { type: ['string', 'null'] }),
  'a field has another value': ({ product, schemas: { ProductStatus: status } }) =>
    set(product.properties, { status: { ...status, enum: [...status.enum, 'sold'] } }),
}
const compatible: typeof breaking = {
  'nothing changes': () => undefined,
  'a response has a field': ({ product }) => {
    product.properties.price = { type: 'integer' }
    product.required.push('price')
  },
  'a field is never null any more': ({ product }) => product.properties.description.type.pop(),
  'an error has another code': ({ schemas }) =>
    schemas.UnprocessableEntityError.properties.error.allOf[1].properties.code.enum.push('NEW'),
  'a description is new': ({ get }) => set(get, { description: 'New' }),
  'a definition becomes a component': ({ schemas, product }) => {
    schemas.Name = product.properties.name
    product.properties.name = { $ref: '#/components/schemas/Name' }
  },
  'a parameter becomes one of the path': ({ get, operations }) =>
    set(operations, { parameters: [get.parameters.shift()] }),
}

t.test('changes that break clients are found, others are not', async (t) => {
  for (const [isBreaking, cases] of [
    [true, breaking],
    [false, compatible],
  ] as const)
    for (const [name, change] of Object.entries(cases)) {
      const after = createDocument()
      const { paths, components } = after
      const { Product: product, ProductCreate: create } = components.schemas
      const operations = paths[PRODUCTS]
      change({ paths, operations, ...operations, ...components, product, create })
      const changes = findBreakingChanges(createDocument(), after)
      t.equal(changes.length > 0, isBreaking, `${name}: ${changes.join('; ')}`)
    }
})

t.test('breaking changes since the last release must be announced', async (t) => {
  const folder = testFolder(t)
  const env = { PATH: process.env.PATH ?? '', GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' }
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
  const git = (...args: string[]) => execFileSync('git', [...identity, ...args], { cwd: folder, env })
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
  const setVersion = (version: string) => write('package.json', JSON.stringify({ version }))
  const setUnreleased = (text: string) => write('CHANGELOG.md', `# Changelog\n\n## [Unreleased]\n\n${text}\n`)
  const loader = `--import=${import.meta.resolve('../../packages/testing/run/typescript.js')}`
  const compare = () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [loader, script], { cwd: folder, env })
    return { status, output: `${stdout}${stderr}` }
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
  const expected = /1 breaking changes since v0\.1\.0\n- POST \/api\/v1\/products: /
  t.match(compare(), { status: 1, output: expected })
  setUnreleased('### Breaking\n\n- Products are read-only.')
  t.match(compare(), { status: 0, output: /announces them/ })
  setUnreleased('- News.')
  setVersion('0.2.0')
  t.equal(compare().status, 0)
})
