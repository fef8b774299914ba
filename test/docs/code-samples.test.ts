/** The code samples of the documents: each operation has them, and those for curl succeed against a new server. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../helpers/app.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

const run = promisify(execFile)

/** Makes curl fail for statuses from 400, and prints only the body of the last request. */
const STRICT = 'set -euo pipefail; curl() { command curl --no-progress-meter --fail-with-body "$@"; }\n'

/** The order in which the commands run: what is created is read, changed and deleted, last of all what others refer to. */
const METHODS = ['post', 'get', 'patch', 'delete']

interface Sampled {
  operationId: string
  method: string
  samples: Json[]
}

const getSource = ({ samples }: Sampled, label: string): string =>
  samples.find((sample) => sample.label === label)?.source ?? ''

/** Returns the commands with an API key in an order in which they succeed, and the sign-in. */
function orderCommands(sampled: readonly Sampled[]): Sampled[] {
  const isOwn = (each: Sampled) =>
    each.operationId === 'createToken' || getSource(each, 'curl').includes('YOUR_API_KEY')
  return METHODS.flatMap((method) => {
    const own = sampled.filter((each) => isOwn(each) && each.method.toLowerCase() === method)
    return method === 'delete' ? own.reverse() : own
  })
}

for (const version of [1, 2]) {
  t.test(`the samples of version ${version}`, async (t) => {
    const { admin, anybody, app, base } = await testApp(t)
    const { body } = await anybody.get(`/openapi/v${version}.json`)
    const { operations } = createReplyChecker(body)
    const sampled = operations.map(
      ({ operationId, method, declared }): Sampled => ({
        operationId,
        method,
        samples: declared['x-codeSamples'] ?? [],
      }),
    )
    const labels = version === 1 ? ['curl', 'TypeScript', 'Python'] : ['curl', 'Python']
    for (const { operationId, samples } of sampled) {
      const own = samples.filter(({ label }) => label !== 'Export' && label !== 'Import')
      t.match(
        own,
        labels.map((label) => ({ label, source: base })),
        operationId,
      )
      t.equal(own.length, labels.length, operationId)
      t.equal(
        new Set(samples.map(({ lang }) => lang)).size,
        samples.length,
        'the page finds each by its lang',
      )
    }

    const values = new Map([['YOUR_API_KEY', ADMIN_KEY]])
    for (const each of orderCommands(sampled)) {
      // Those of reads are those of version 1 with another path.
      if (version === 2 && each.method === 'GET' && each.operationId !== 'listEvents') continue
      // A change is in the list once it has its position.
      if (each.operationId === 'listEvents') await app.events.assignAll()
      const command = getSource(each, 'curl').replaceAll(
        /YOUR_API_KEY|[A-Z_]+_ID\b/g,
        (name) => values.get(name) ?? name,
      )
      const { stdout } = await run('bash', ['-c', STRICT + command])
      if (each.method.toLowerCase() === 'delete') continue
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
    t.notOk(
      body.paths[`/api/v${version}/tokens`].post['x-codeSamples'].some(
        ({ label }: Json) => label === 'Import',
      ),
    )
  })
}
