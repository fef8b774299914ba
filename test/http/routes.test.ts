/** The routes of the app are those of the OpenAPI documents, each with its access rule, schemas and texts. */
import Fastify, { type RouteOptions } from 'fastify'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import access, { type RouteAccess, verbs } from '../../plugins/access/index.ts'
import errors from '../../plugins/errors/index.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { listDefinitions } from '../../src/app.ts'
import { type Json, testApp } from '../helpers/app.ts'

const { app, admin, anybody } = await testApp(t)

interface Operation {
  version: number
  method: string
  path: string
  said: Json
}

const documents = new Map<number, Json>()
for (const version of [1, 2]) documents.set(version, (await anybody.get(`/openapi/v${version}.json`)).body)

const operations: Operation[] = [...documents].flatMap(([version, document]) =>
  Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item)
      .filter(([method]) => method !== 'parameters')
      .map(([method, said]) => ({ version, method, path, said: { security: document.security, ...said } })),
  ),
)
const ofVersion = (version: number) =>
  operations.filter((each) => each.version === version && each.path.startsWith(`/api/v${version}/`))
const ofResources = [...ofVersion(1), ...ofVersion(2)]
const nameOf = ({ version, said }: Operation) => `v${version} ${said.operationId}`

/** What a `$ref` of a document stands for. */
function resolve(version: number, value: Json): Json {
  if (!value?.$ref) return value
  const parts: string[] = value.$ref.split('/').slice(1)
  return resolve(
    version,
    parts.reduce((at, part) => at?.[part.replaceAll('~1', '/')], documents.get(version)),
  )
}

/** Signing in is what one does without credentials. */
const asks = ({ said }: Operation) => said.operationId !== 'createToken'

const replyOf = ({ version, said }: Operation, status: string) => resolve(version, said.responses[status])

t.test('every resource has the same operations and texts in both versions', async (t) => {
  const ids = {
    list: 'list',
    read: 'get',
    create: 'create',
    replace: 'replace',
    update: 'update',
    remove: 'delete',
  }
  const expected = listDefinitions().flatMap(({ plural, singular, verbs: own = verbs }) =>
    own.map((verb) => `${ids[verb]}${verb === 'list' ? plural : singular}`),
  )
  expected.push('createToken', 'createWebhookSecret')
  const [first, second] = [1, 2].map((version) =>
    ofVersion(version).map(({ method, path, said }) => ({
      method,
      path: path.replace(`/v${version}/`, '/'),
      id: said.operationId,
      tags: said.tags,
    })),
  )
  t.same(first, second)
  t.same(first?.map(({ id }) => id).sort(), expected.sort())
})

t.test('an operationId is unique in its version', async (t) => {
  for (const version of [1, 2]) {
    const ids = operations.filter((each) => each.version === version).map(({ said }) => said.operationId)
    t.equal(new Set(ids).size, ids.length)
  }
})

t.test('every operation has an id, a described tag, and a summary', async (t) => {
  for (const operation of operations) {
    const { said, version } = operation
    t.match(said.operationId, /^[a-z][A-Za-z]+$/, nameOf(operation))
    t.equal(said.tags?.length, 1)
    t.ok(
      documents.get(version).tags.some(({ name }: Json) => name === said.tags[0]),
      said.tags[0],
    )
    t.match(said.summary, /^[A-Z].{5,}[^.]$/)
  }
})

t.test('every success status declares a schema or no body', async (t) => {
  for (const operation of operations) {
    const statuses = Object.keys(operation.said.responses).filter((status) => status < '400')
    t.ok(
      statuses.some((status) => status.startsWith('2')),
      nameOf(operation),
    )
    for (const status of statuses) {
      const { content, description } = replyOf(operation, status)
      t.ok(description, `${nameOf(operation)} ${status}`)
      if (status === '204' || status === '304') t.equal(content, undefined)
      else t.ok(resolve(operation.version, content['application/json'].schema).properties)
    }
  }
})

t.test('every error status declares the envelope of its version', async (t) => {
  for (const operation of ofResources.filter(asks)) {
    const { version, said, method } = operation
    const statuses = Object.keys(said.responses).filter((status) => status >= '400')
    const common = ['400', '401', '403', '406', '500', '503']
    const write = ['post', 'put', 'patch'].includes(method) ? ['409', '413', '415', '422'] : []
    const change = ['put', 'patch', 'delete'].includes(method) ? ['404', '412', '428'] : []
    for (const status of [...common, ...write, ...change])
      t.ok(statuses.includes(status), `${nameOf(operation)} ${status}`)
    for (const status of statuses) {
      const schema = resolve(version, replyOf(operation, status).content['application/json'].schema)
      const [shared, { properties }] = resolve(version, schema.properties.error).allOf
      const error = resolve(version, shared)
      t.ok(properties.code.enum.length > 0, 'the codes of the status')
      for (const member of ['code', 'message', 'request_id']) t.ok(error.required.includes(member))
      const [own, other] = version === 1 ? ['details', 'errors'] : ['errors', 'details']
      t.equal(error.properties[other], undefined, `${nameOf(operation)} ${status}`)
      if (status === '422') t.ok(error.properties[own])
    }
  }
})

t.test('the guide describes the headers of every response once', async (t) => {
  for (const { info } of documents.values()) {
    for (const name of ['X-Request-Id', 'Cache-Control', 'API-Version', 'Vary', 'X-RateLimit-Limit'])
      t.equal(info.description.split(`\n- \`${name}\`: `).length, 2, name)
  }
  for (const operation of operations) {
    for (const status of Object.keys(operation.said.responses)) {
      const names = Object.keys(replyOf(operation, status).headers ?? {})
      t.notOk(names.includes('X-Request-Id'), `${nameOf(operation)} ${status}`)
    }
  }
})

t.test('every route exists under the path of its document', async (t) => {
  for (const { method, path } of operations) {
    const url = path.replace(/\{(\w+)\}/g, ':$1')
    t.ok(app.hasRoute({ method: method.toUpperCase() as 'GET', url }), `${method} ${url}`)
  }
})

t.test('every operation on a resource requires credentials and declares it', async (t) => {
  for (const operation of ofResources.filter(asks)) {
    const { method, path, said } = operation
    const schemes = said.security.flatMap((each: object) => Object.keys(each))
    const keyless = ['sessions', 'api-keys', 'webhook-endpoints', 'deliveries', 'replays'].includes(
      said.tags[0],
    )
    t.same(schemes.sort(), keyless ? ['bearer'] : ['apiKey', 'bearer'], nameOf(operation))
    const reply = await anybody.call(method.toUpperCase(), path.replace(/\{\w+\}/g, uuid()))
    t.equal(reply.status, 401, nameOf(operation))
    t.ok(reply.headers.get('www-authenticate'))
    t.equal(reply.headers.get('api-version'), String(operation.version))
  }
})

t.test('every documented operation is answered', async (t) => {
  for (const operation of ofResources.filter(asks)) {
    const { method, path } = operation
    const { status } = await admin.call(method.toUpperCase(), path.replace(/\{\w+\}/g, uuid()))
    t.ok([200, 400, 404].includes(status), `${nameOf(operation)} ${status}`)
  }
})

/** An app with that one route, and what its start says. */
async function start(route: Partial<RouteOptions>): Promise<unknown> {
  const bare = Fastify()
  await bare.register(errors, { getErrorEnvelope: () => v1.error })
  await bare.register(access, { hideForbidden: false, allowSignup: false })
  bare.route({ method: 'GET', url: '/bare', handler: async () => 'open', ...route })
  return bare.ready().then(
    () => undefined,
    (error: unknown) => error,
  )
}

t.test('a route without config.access, or with one that is not registered, stops the start', async (t) => {
  t.match(await start({}), /without config.access.*GET \/bare/)
  const unregistered: RouteAccess = 'secrets:read'
  t.match(await start({ config: { access: unregistered } }), /GET \/bare/)
  t.equal(await start({ config: { access: 'public' } }), undefined)
})
