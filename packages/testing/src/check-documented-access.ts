/** Checks that the access that the OpenAPI documents describe is the access that the service grants. */
import { getIncludingScope, getScope } from '@resource-api/api/access'
import type { Verb } from '@resource-api/api/rules'
import { getBuiltInName } from '@resource-api/database/application'
import { roles } from '@resource-api/database/roles'
import { SIGN_UP } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import type { BuildApp, TestOverrides } from './app.ts'
import { type CheckOptions, type CheckTest, startChecked } from './check.ts'
import type { Json } from './client.ts'
import { type Cell, getComparison, getConditions } from './definitions.ts'
import { findAccessFaults, findOwnAccess, sendUnknown } from './own-access.ts'
import { createReplyChecker, type Operation } from './reply-checker.ts'

/** Returns a cell of the matrix as the documents word it: the conditions, and their parts, in the order of their letters. */
function getWords(cell: Cell): string[] {
  if (cell === 'all' || cell === 'none') return [cell]
  if (cell === SIGN_UP) return ['all']
  const toWords = (part: string) => {
    const [, path] = /^own by (\w+\..+)$/.exec(part) ?? []
    if (path !== undefined) return `the caller's own by \`${path}\``
    const [field, value] = getComparison(part) ?? []
    return field === undefined ? "the caller's own" : `\`${field}\` ${value}`
  }
  return getConditions(cell)
    .map((parts) => parts.map(toWords).sort().join(' and '))
    .sort()
}

/** Returns the words of a condition with its parts in the order of their letters. */
const sortParts = (words: string) =>
  words
    .replace(/^with /, '')
    .replace(' with ', ' and ')
    .split(' and ')
    .sort()
    .join(' and ')

/** The access by role at the end of a description. */
const readRoles = (description: string) =>
  Object.fromEntries(
    (/By role: (.*)\.$/.exec(description)?.[1] ?? '')
      .replace('. Without credentials: ', '; anonymous: ')
      .replace(', but no export', '')
      .split('; ')
      .map((text) => {
        const [role, words = ''] = text.split(/: (.*)/)
        return [role, words.split(', or ').map(sortParts).sort()]
      }),
  )

const verbs: Record<string, Verb> = { POST: 'create', PUT: 'replace', PATCH: 'update', DELETE: 'remove' }
const getVerb = ({ method, path }: Operation): Verb =>
  verbs[method] ?? (path.endsWith('{id}') ? 'read' : 'list')

const getCollection = ({ declared }: Operation) => String(declared.tags[0])
const getSecurity = ({ declared }: Operation): object[] => declared.security
const isOpen = (operation: Operation) => getSecurity(operation).some((each) => Object.keys(each).length === 0)
/** Returns whether a rule opens an operation: a list, a read, or sign-up. */
const isRuledOpen = ({ guards }: FastifyInstance, operation: Operation, signup: boolean) => {
  const verb = getVerb(operation)
  const rule = guards.get(`${getCollection(operation)}:${verb}`)?.rules.anonymous ?? false
  return rule !== false && (signup || verb !== 'create')
}
/** The scopes that the document asks of a key. */
const getScopes = ({ declared }: Operation): string[] => declared['x-required-scopes'] ?? []

/** Operations of which no collection has rules, besides those of events. */
const WITHOUT_RULES = [
  ...['createBatch', 'createToken'],
  ...['createPasswordReset', 'completePasswordReset', 'createEmailVerification'],
  ...['completeEmailVerification', 'getLiveness', 'getReadiness'],
]

export async function checkDocumentedAccess<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  options: CheckOptions<O>,
): Promise<void> {
  for (const signup of [false, true]) {
    await t.test(
      `documented access with sign-up ${signup ? 'allowed' : 'not allowed'}`,
      { skip: false },
      async (t) => {
        const settings = { ...options.settings, ALLOW_SIGNUP: String(signup) }
        const api = await startChecked(t, buildApp, { ...options, settings })
        const { app, anybody, getReason } = api
        const { matrix } = api.definitions
        const withoutScopes = (await api.person('admin', ['nothing'])).client
        for (const { representation } of app.versions) {
          const { version } = representation
          const { operations } = createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body)
          const isOwn = (each: Operation) => findOwnAccess(app, each) !== undefined
          const guarded = operations.filter((each) => matrix[getCollection(each)] && !isOwn(each))

          await t.test(
            `v${version}: the access of all operations is documented`,
            { skip: false },
            async (t) => {
              const ruled = Object.entries(matrix).flatMap(([name, cells]) =>
                // Those of restores are checked as own operations are.
                Object.keys(cells).flatMap((verb) => (verb === 'restores' ? [] : `${name}:${verb}`)),
              )
              // Aggregates have the access of their list.
              const aggregated = app.resources.flatMap(({ name, aggregates }) =>
                aggregates ? `${name}:list` : [],
              )
              ruled.push(...aggregated)
              t.same(guarded.map((each) => `${getCollection(each)}:${getVerb(each)}`).sort(), ruled.sort())
              t.same(
                guarded.filter(isOpen).map(({ operationId }) => operationId),
                guarded
                  .filter((each) => isRuledOpen(app, each, signup))
                  .map(({ operationId }) => operationId),
                'sign-up and open collections alone need no credentials',
              )
              const others = operations.filter((each) => !guarded.includes(each) && !isOwn(each))
              t.same(
                others.flatMap((each) =>
                  WITHOUT_RULES.includes(each.operationId) || getCollection(each) === getBuiltInName('events')
                    ? []
                    : [each.operationId],
                ),
                [],
                'all others have rules',
              )
              for (const operation of operations) {
                // A public route of one's own may refuse requests for reasons of its own.
                if (findOwnAccess(app, operation) === 'public') continue
                const { operationId, declared } = operation
                const asks = getSecurity(operation).length > 0
                // A link that cannot be used is a 403, and so is a sign-in if the address has to be verified first.
                const refuses = asks || /^complete|^createToken$/.test(operationId)
                t.same('403' in declared.responses, refuses, `${operationId} 403`)
                // A wrong password is a 401 too.
                t.same(
                  '401' in declared.responses,
                  asks || operationId === 'createToken',
                  `${operationId} 401`,
                )
                if (!asks)
                  t.ok(![401, 403].includes((await sendUnknown(anybody, operation)).status), operationId)
              }
            },
          )

          await t.test(
            `v${version}: own operations and own routes answer each role as documented`,
            { skip: false },
            async (t) => {
              for (const operation of operations) {
                const access = findOwnAccess(app, operation)
                if (access) t.same(await findAccessFaults(api, operation, access), [], operation.operationId)
              }
            },
          )

          for (const operation of guarded) {
            const { operationId, declared } = operation
            const { description, parameters = [] } = declared
            const [name, verb] = [getCollection(operation), getVerb(operation)]
            const needed = getScopes(operation)
            const [scope] = needed

            await t.test(
              `v${version}: ${operationId} declares its credentials and its access`,
              { skip: getReason(name) },
              async (t) => {
                const guard = app.guards.get(`${name}:${verb}`)
                const open = isRuledOpen(app, operation, signup)
                const keys = guard?.credential === null ? [] : [{ apiKey: [] }]
                t.same(getSecurity(operation), [...keys, { bearer: [] }, ...(open ? [{}] : [])])
                t.same(needed, guard?.credential === null ? [] : [getScope(name, verb)])

                const cells = matrix[name]?.[verb]
                const callers = [...roles, ...(open ? (['anonymous'] as const) : [])]
                const access = Object.fromEntries(
                  callers.map((role) => [role, getWords(cells?.[role] ?? 'none')]),
                )
                t.same(readRoles(description), access, description)
                t.ok(
                  description.includes(
                    scope ? `An API key needs the scope \`${scope}\`` : 'Requires a Bearer token;',
                  ),
                  description,
                )
                // A collection that is only read has no other scope.
                const including = (scope && getIncludingScope(scope)) ?? ''
                t.same(
                  description.includes(`or \`${including}\`, which includes it`),
                  app.scopes.has(including),
                )
                t.same(/ Without credentials: /.test(description), isOpen(operation))
                const includes = parameters.some((each: Json) => each.name === 'include')
                t.same(/for `include`/.test(description), includes)
                if (open) return
                const refused = await sendUnknown(withoutScopes, operation)
                t.same(refused.status, 403, 'a key without scopes')
                t.ok(refused.body.error.message.includes(scope ?? 'Bearer token'), refused.text)
              },
            )
          }
        }
      },
    )
  }
}
