/** `npm run openapi:diff` reports changes of the OpenAPI documents that break clients. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findBreakingChanges } from '../../scripts/breaking-changes.ts'
import type { Json } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const PRODUCTS = '/api/v1/products'

/** Returns the document with one path: a comparison of all takes seconds on a busy machine. */
function readDocument(): Json {
  const document = JSON.parse(readFileSync(join(root, 'docs/openapi/v1.json'), 'utf8'))
  return { ...document, paths: { [PRODUCTS]: document.paths[PRODUCTS] } }
}

/** Returns the schema of the body that creates a product. */
const findBody = (document: Json) => {
  const { schema } = document.paths[PRODUCTS].post.requestBody.content['application/json']
  return schema.$ref ? document.components.schemas[schema.$ref.split('/').at(-1)] : schema
}

/** Replaces what the response to a creation contains. */
const setResponseField = (document: Json, name: string, schema: Json) => {
  const { content } = document.paths[PRODUCTS].post.responses['201']
  const data = {
    type: 'object',
    required: ['id', 'name'],
    properties: { id: { type: 'string' }, [name]: schema },
  }
  content['application/json'].schema = { type: 'object', properties: { data } }
}

const number = { type: 'number' }
const BREAKING: [string, (document: Json) => void, ((document: Json) => void)?][] = [
  ['a removed operation', ({ paths }) => delete paths[PRODUCTS].post],
  ['a renamed operation', ({ paths }) => Object.assign(paths[PRODUCTS].post, { operationId: 'addProduct' })],
  ['a removed parameter', ({ paths }) => paths[PRODUCTS].get.parameters.shift()],
  ['a required field of a body', (document) => findBody(document).required.push('stock')],
  ['a removed field of a body', (document) => delete findBody(document).properties.stock],
  ['a value that a body may no longer have', (document) => findBody(document).properties.status.enum.pop()],
  [
    'a field of a response that may now be null',
    (document) => setResponseField(document, 'name', { type: ['string', 'null'] }),
    (document) => setResponseField(document, 'name', { type: 'string' }),
  ],
  [
    'a field of a response that is missing',
    (document) => setResponseField(document, 'other', { type: 'string' }),
    (document) => setResponseField(document, 'name', { type: 'string' }),
  ],
]
const COMPATIBLE: typeof BREAKING = [
  ['no change', () => undefined],
  ['a new operation', ({ paths }) => Object.assign(paths, { '/api/v1/teas': paths[PRODUCTS] })],
  ['an optional field of a body', (document) => Object.assign(findBody(document).properties, { number })],
  ['a description', ({ paths }) => Object.assign(paths[PRODUCTS].get, { description: 'New' })],
  [
    'a field of a response that is never null any more',
    (document) => setResponseField(document, 'name', { type: 'string' }),
    (document) => setResponseField(document, 'name', { type: ['string', 'null'] }),
  ],
]

t.test('changes that break clients are found, others are not', async (t) => {
  for (const [cases, isBreaking] of [
    [BREAKING, true],
    [COMPATIBLE, false],
  ] as const) {
    for (const [name, change, prepare] of cases) {
      const [before, after] = [readDocument(), readDocument()]
      prepare?.(before)
      change(after)
      const changes = findBreakingChanges(before, after)
      t.equal(changes.length > 0, isBreaking, `${name}: ${changes.join('\n')}`)
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
      '--import',
      import.meta.resolve('../helpers/typescript.js'),
      `${root}scripts/openapi-diff.ts`,
    ]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: folder,
      env,
      encoding: 'utf8',
    })
    return { status, output: stdout + stderr }
  }
  mkdirSync(join(folder, 'docs/openapi'), { recursive: true })
  const document = readDocument()
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
