/** The routes of the app are those of the OpenAPI documents, each with its access rule, schemas and texts. */
import { type TSchema, Type } from '@sinclair/typebox'
import Fastify, { type RouteOptions } from 'fastify'
import t from 'tap'
import { own } from '../../../src/own.ts'
import { listDefinitions } from '../../../src/resources.ts'
import type { Role } from '../../database/src/application.ts'
import { type Json, testApp } from '../../testing/helpers/app.ts'
import access from '../src/access/access.ts'
import type { RouteAccess } from '../src/access/guards.ts'
import errors from '../src/errors/errors.ts'
import { verbs } from '../src/rules/rules.ts'
import validation, { createSerializerFactory } from '../src/validation/validation.ts'
import { v1 } from '../src/versions/representation/v1.ts'

const { anybody } = await testApp(t)

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

const replyOf = ({ version, said }: Operation, status: string) => resolve(version, said.responses[status])

t.test('every resource has the same operations and texts in both versions', async (t) => {
  const changes = { create: 'create', replace: 'replace', update: 'update', remove: 'delete' }
  const ids = { list: 'list', read: 'get', ...changes }
  const expected = listDefinitions().flatMap(
    ({ aggregates, isRestorable, plural, singular, verbs: offered = verbs }) => [
      ...offered.map((verb) => `${ids[verb]}${verb === 'list' ? plural : singular}`),
      ...(aggregates ? [`aggregate${plural}`] : []),
      ...(isRestorable ? [`restore${singular}`] : []),
    ],
  )
  expected.push('createBatch', 'createToken', 'createWebhookSecret')
  expected.push('createPasswordReset', 'completePasswordReset')
  expected.push('createEmailVerification', 'completeEmailVerification')
  const [first, second] = [1, 2].map((version) =>
    ofVersion(version).map(({ method, path, said }) => ({
      method,
      path: path.replace(`/v${version}/`, '/'),
      id: said.operationId,
      tags: said.tags,
    })),
  )
  t.same(first, second)
  // Routes of one's own have their own operations.
  const ofProduct = first?.filter(({ tags }) => !own.routes.some(({ name }) => tags.includes(name)))
  t.same(ofProduct?.map(({ id }) => id).sort(), expected.sort())
})

t.test('every operation has a unique id, a described tag, and a summary', async (t) => {
  for (const { said, version } of operations) {
    const same = operations.filter(
      (each) => each.version === version && each.said.operationId === said.operationId,
    )
    t.equal(same.length, 1, said.operationId)
    t.match(said, { operationId: /^[a-z][A-Za-z]+$/, summary: /^[A-Z].{5,}[^.]$/ })
    t.equal(said.tags?.length, 1)
    const tags = documents.get(version).tags.map(({ name }: Json) => name)
    t.ok(tags.includes(said.tags[0]), said.tags[0])
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

/** An app with that one route, and what its start says. */
async function start(route: Partial<RouteOptions>): Promise<unknown> {
  const compilersFactory = { buildSerializer: createSerializerFactory(true) }
  const bare = Fastify({ schemaController: { compilersFactory } })
  await bare.register(errors, { getErrorEnvelope: () => v1.error })
  await bare.register(access, { HIDE_FORBIDDEN: false, ALLOW_SIGNUP: false, scopes: ['reports:read'] })
  await bare.register(validation, { NODE_ENV: 'test' })
  bare.route({ method: 'GET', url: '/bare', handler: async () => 'open', ...route })
  return bare.ready().then(
    () => undefined,
    (error: unknown) => error,
  )
}

t.test('a route with a wrong access or a wrong schema stops the start', async (t) => {
  const access: RouteAccess = 'public'
  const isOwn = (roles: Role[], scope = 'reports:read') => ({ config: { access: { roles, scope } } })
  const body = (day: TSchema) => ({ config: { access }, schema: { body: Type.Object({ day }) } })
  const unregistered: RouteAccess = 'secrets:read'
  for (const [route, message] of [
    [{ config: { access } }, undefined],
    [isOwn(['admin']), undefined],
    [{}, /without config.access.*POST \/bare/],
    [{ config: { access: unregistered } }, /POST \/bare/],
    [isOwn([]), /POST \/bare/],
    [isOwn(['admin'], 'reports:raed'), /POST \/bare/],
    [body(Type.String({ format: 'weekday' })), /unknown format "weekday"/],
    [body(Type.Array(Type.String({ maxLenght: 3 }))), /unknown keyword: "maxLenght"/],
    [body(Type.String({ minLength: -1 })), /minLength must be >= 0/],
    [
      { config: { access }, schema: { querystring: Type.Object({ day: Type.String({ pattern: '(' }) }) } },
      /Invalid regular expression/,
    ],
    [
      { config: { access }, schema: { response: { 200: { type: 'day' } } } },
      /type must be equal to one of the allowed values/,
    ],
  ] as const) {
    const error = await start({ method: 'POST', ...route })
    if (message) t.match(String(error), message)
    else t.equal(error, undefined)
  }
})
