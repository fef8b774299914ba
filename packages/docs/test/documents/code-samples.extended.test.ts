/** The code samples of the documents: each operation has them, and those for curl succeed against a new server. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createReplyChecker, type Operation } from '../../../testing/helpers/reply-checker.ts'

const run = promisify(execFile)

/** Makes curl fail for statuses from 400, and prints only the body of the last request. */
const STRICT = 'set -euo pipefail; curl() { command curl --no-progress-meter --fail-with-body "$@"; }\n'

/** The order in which the commands run: what is created is read, changed and deleted, last of all what others refer to. */
const METHODS = ['POST', 'GET', 'PATCH', 'DELETE']

const getSamples = ({ declared }: Operation): Json[] => declared['x-codeSamples'] ?? []
const getSource = (operation: Operation, label: string): string =>
  getSamples(operation).find((sample) => sample.label === label)?.source ?? ''

/** Returns the operations with an API key in an order in which their commands succeed, and the sign-in. */
function orderOperations(operations: readonly Operation[]): Operation[] {
  const sampled = operations.filter(
    (each) => each.operationId === 'createToken' || getSource(each, 'curl').includes('YOUR_API_KEY'),
  )
  return METHODS.flatMap((method) => {
    const own = sampled.filter((each) => each.method === method)
    return method === 'DELETE' ? own.reverse() : own
  })
}

for (const version of [1, 2]) {
  t.test(`the samples of version ${version}`, async (t) => {
    const { admin, anybody, app, base } = await testApp(t)
    const { body } = await anybody.get(`/openapi/v${version}.json`)
    const { operations } = createReplyChecker(body)
    const labels = version === 1 ? ['curl', 'TypeScript', 'Python'] : ['curl', 'Python']
    for (const operation of operations) {
      const samples = getSamples(operation)
      const own = samples.filter(({ label }) => label !== 'Export' && label !== 'Import')
      const shown = own.map(({ label, source }) => ({ label, namesServer: source.includes(base) }))
      const expected = labels.map((label) => ({ label, namesServer: true }))
      t.strictSame(shown, expected, operation.operationId)
      const languages = new Set(samples.map(({ lang }) => lang))
      t.equal(languages.size, samples.length, 'the page finds each by its lang')
    }

    const values = new Map([['YOUR_API_KEY', ADMIN_KEY]])
    for (const each of orderOperations(operations)) {
      // Those of reads are those of version 1 with another path.
      if (version === 2 && each.method === 'GET' && each.operationId !== 'listEvents') continue
      // A change is in the list once it has its position.
      if (each.operationId === 'listEvents') await app.events.assignAll()
      const command = getSource(each, 'curl').replaceAll(
        /YOUR_API_KEY|[A-Z_]+_ID\b/g,
        (name) => values.get(name) ?? name,
      )
      const { stdout } = await run('bash', ['-c', STRICT + command])
      if (each.method === 'DELETE') continue
      const { data }: Json = JSON.parse(stdout)
      t.ok(data, each.operationId)
      const [, created] = /^create(\w+)$/.exec(each.operationId) ?? []
      if (created) values.set(`${created.replaceAll(/(?<=[a-z])[A-Z]/g, '_$&').toUpperCase()}_ID`, data.id)
      if (each.operationId === 'listEvents') values.set('EVENT_ID', data[0].id)
    }

    // What the commands created, they have deleted. The export of a list can be sent back as an import.
    await admin.post('/products', { sku: 'TEA-1', name: 'Tea', price_amount: 1, status: 'active' })
    const { get, post } = body.paths[`/api/v${version}/products`]
    const find = ({ 'x-codeSamples': samples }: Json, label: string): string =>
      samples.find((each: Json) => each.label === label).source.replace('YOUR_API_KEY', ADMIN_KEY)
    const send = find(post, 'Import').replace('/products"', '/products?on_conflict=sku"')
    const options = { cwd: t.testdir({}) }
    const { stdout } = await run('bash', ['-c', `set -e\n${find(get, 'Export')}\n${send}`], options)
    t.strictSame(JSON.parse(stdout).data, { created: 0, updated: 0, unchanged: 1 })
    const tokenSamples: Json[] = body.paths[`/api/v${version}/tokens`].post['x-codeSamples']
    t.notOk(tokenSamples.some(({ label }) => label === 'Import'))
  })
}
