/** The access that the OpenAPI documents describe is the access that the service grants. */
import t from 'tap'
import { getIncludingScope, getScope, type Verb } from '../../plugins/access/index.ts'
import { type Json, type TestApp, testApp } from '../helpers/app.ts'
import { type Cell, getComparison, getConditions, matrix } from '../helpers/definitions.ts'
import { createReplyChecker, type Operation } from '../helpers/reply-checker.ts'

const ROLES = ['admin', 'manager', 'member'] as const

/** A condition of a cell as the documents word it. */
function toWords(parts: readonly string[]): string {
  const words = parts.map((part) => {
    const [field, value] = getComparison(part) ?? []
    return field === undefined ? "the caller's own" : `with \`${field}\` ${value}`
  })
  return words.join(' ')
}

/** A cell of the matrix as the documents word it: the conditions in any order. */
const getWords = (cell: Cell) =>
  cell === 'all' || cell === 'none' ? [cell] : getConditions(cell).map(toWords).sort()

/** The access by role at the end of a description. */
const readRoles = (description: string) =>
  Object.fromEntries(
    (/By role: (.*)\.$/.exec(description)?.[1] ?? '').split('; ').map((text) => {
      const [role, words = ''] = text.split(/: (.*)/)
      return [role, words.split(', or ').sort()]
    }),
  )

const verbs: Record<string, Verb> = { POST: 'create', PUT: 'replace', PATCH: 'update', DELETE: 'remove' }
const verbOf = ({ method, path }: Operation): Verb =>
  verbs[method] ?? (path.endsWith('{id}') ? 'read' : 'list')

const collectionOf = ({ declared }: Operation) => String(declared.tags[0])
const securityOf = ({ declared }: Operation): object[] => declared.security
const isOpen = (operation: Operation) => securityOf(operation).some((each) => Object.keys(each).length === 0)
/** The scopes that the document asks of a key. */
const scopesOf = ({ declared }: Operation): string[] => declared['x-required-scopes'] ?? []

async function operationsOf({ anybody }: TestApp, version: number): Promise<Operation[]> {
  return createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body).operations
}

for (const signup of [false, true]) {
  t.test(`documented access with sign-up ${signup ? 'allowed' : 'not allowed'}`, async (t) => {
    const app = await testApp(t, { ALLOW_SIGNUP: String(signup) })

    for (const version of [1, 2]) {
      const all = await operationsOf(app, version)
      // The replacement of a secret has the access of a change of its endpoint.
      const guarded = all.filter(
        (each) => matrix[collectionOf(each)] && each.declared.operationId !== 'createWebhookSecret',
      )

      await t.test(`v${version}: each operation declares its credentials and its scope`, async (t) => {
        const ruled = Object.entries(matrix).flatMap(([name, cells]) =>
          Object.keys(cells).map((verb) => `${name}:${verb}`),
        )
        t.same(guarded.map((each) => `${collectionOf(each)}:${verbOf(each)}`).sort(), ruled.sort())
        for (const operation of guarded) {
          const [name, verb] = [collectionOf(operation), verbOf(operation)]
          const guard = app.app.guards.get(`${name}:${verb}`)
          const open = signup && guard?.rules.anonymous === true
          const keys = guard?.credential === null ? [] : [{ apiKey: [] }]
          t.same(
            securityOf(operation),
            [...keys, { bearer: [] }, ...(open ? [{}] : [])],
            operation.operationId,
          )
          t.same(
            scopesOf(operation),
            guard?.credential === null ? [] : [getScope(name, verb)],
            operation.operationId,
          )
        }
        t.equal(guarded.filter(isOpen).length, signup ? 1 : 0, 'signing up alone needs none')
      })

      await t.test(
        `v${version}: the description of each operation lists the same access by role`,
        async (t) => {
          for (const operation of guarded) {
            const { operationId, declared } = operation
            const { description, parameters = [] } = declared
            const cells = matrix[collectionOf(operation)]?.[verbOf(operation)]
            const access = Object.fromEntries(ROLES.map((role) => [role, getWords(cells?.[role] ?? 'none')]))
            t.same(readRoles(description), access, `${operationId}: ${description}`)
            const [scope] = scopesOf(operation)
            t.match(
              description,
              scope ? `An API key needs the scope \`${scope}\`` : 'Requires a Bearer token;',
            )
            const including = scope && getIncludingScope(scope)
            t.equal(description.includes(`or \`${including}\`, which includes it`), including !== undefined)
            t.equal(/Credentials are optional/.test(description), isOpen(operation), operationId)
            const includes = parameters.some(({ name }: Json) => name === 'include')
            t.equal(/for `include`/.test(description), includes, operationId)
          }
        },
      )

      await t.test(`v${version}: 401 and 403 are documented exactly where they can occur`, async (t) => {
        for (const operation of all) {
          const { operationId, declared } = operation
          const asks = securityOf(operation).length > 0
          t.equal('403' in declared.responses, asks, `${operationId} 403`)
          t.equal('401' in declared.responses, asks || operationId === 'createToken', `${operationId} 401`)
          if (asks) continue
          const { status } = await app.anybody.call(operation.method, operation.path)
          t.notOk([401, 403].includes(status), operationId)
        }
        t.same(
          all.filter((each) => !guarded.includes(each)).map(({ declared }) => declared.operationId),
          ['createWebhookSecret', 'listEvents', 'getEvent', 'createToken', 'getLiveness', 'getReadiness'],
          'all others are in the matrix',
        )
      })
    }
  })
}
