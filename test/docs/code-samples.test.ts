/** The code samples of the documents: those for curl succeed against a new server, in the order of a first session. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../helpers/app.ts'
import { isRegistered } from '../helpers/definitions.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

const run = promisify(execFile)

/** The operations with samples by their resource, each after those that create what it needs. */
const SAMPLED: readonly (readonly [resource: string, ...operations: string[]])[] = [
  ['users', 'createUser'],
  ['tokens', 'createToken'],
  ['posts', 'createPost'],
  ['products', 'createProduct', 'getProduct', 'updateProduct', 'listProducts'],
  ['orders', 'createOrder', 'listOrders', 'updateOrder'],
  ['events', 'listEvents'],
]

const OPERATIONS = SAMPLED.flatMap(([resource, ...operations]) =>
  resource === 'tokens' || isRegistered(resource) ? operations : [],
)

/** The placeholder for the id of what an operation creates. */
const PLACEHOLDERS: Readonly<Record<string, string>> = {
  createUser: 'USER_ID',
  createProduct: 'PRODUCT_ID',
  createOrder: 'ORDER_ID',
}

/** Makes curl fail for statuses from 400, and prints only the body of the last request. */
const STRICT = 'set -euo pipefail; curl() { command curl --no-progress-meter --fail-with-body "$@"; }\n'

for (const version of [1, 2]) {
  t.test(`the samples of version ${version}`, async (t) => {
    const { anybody, base } = await testApp(t)
    const { operations } = createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body)
    const sampled = operations.filter(({ declared }) => declared['x-codeSamples'])
    t.same(sampled.map(({ operationId }) => operationId).sort(), [...OPERATIONS].sort())

    const values = new Map([['YOUR_API_KEY', ADMIN_KEY]])
    for (const operationId of OPERATIONS) {
      const samples: Json[] =
        sampled.find((operation) => operation.operationId === operationId)?.declared['x-codeSamples'] ?? []
      const languages = version === 1 ? ['shell', 'typescript', 'python'] : ['shell', 'python']
      t.match(
        samples,
        languages.map((lang) => ({ lang, source: base })),
        operationId,
      )
      t.equal(samples.length, languages.length, operationId)

      const source: string = samples[0]?.source ?? ''
      const command = source.replaceAll(/YOUR_API_KEY|[A-Z]+_ID/g, (name) => values.get(name) ?? name)
      const { stdout } = await run('bash', ['-c', STRICT + command])
      const reply: Json = JSON.parse(stdout)
      t.ok(reply.data, operationId)
      const placeholder = PLACEHOLDERS[operationId]
      if (placeholder !== undefined) values.set(placeholder, reply.data.id)
    }
  })
}
