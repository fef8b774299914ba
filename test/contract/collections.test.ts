/** Newman and Bruno run the collections of both versions on an empty database, and every request succeeds. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Json } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'
import { ADMIN, startFreshServer } from './documents.ts'
import { runTool } from './run-tool.ts'

const requireTool = createRequire(import.meta.url)

/** The number of requests in a collection: one for each operation in the document, but for completions. */
async function countOperations(base: string, version: number): Promise<number> {
  const { paths }: Json = await (await fetch(`${base}/openapi/v${version}.json`)).json()
  const operations = Object.values<Json>(paths).flatMap((item) => Object.values<Json>(item))
  // The token of a completion is in a mail.
  return operations.filter(({ operationId }) => operationId && !operationId.startsWith('complete')).length
}

const readCollection = async (base: string, version: number, format: string): Promise<Json> =>
  (await fetch(`${base}/openapi/v${version}.${format}.json`)).json()

/** Adds what Bruno's import adds to a file: ids, and the type of requests in the application. */
function importIntoBruno(node: Json): Json {
  let ids = 0
  const visit = (value: Json): Json => {
    if (Array.isArray(value)) {
      return value.map((item) => ({ ...visit(item), uid: String(ids++).padStart(21, '0') }))
    }
    if (typeof value !== 'object' || value === null) return value
    const copy = Object.fromEntries(Object.entries(value).map(([name, field]) => [name, visit(field)]))
    return copy.type === 'http' ? { ...copy, type: 'http-request' } : copy
  }
  return { ...visit(node), uid: 'c'.padStart(21, '0') }
}

for (const version of [1, 2]) {
  t.test(`Newman runs the Postman collection of version ${version}`, async (t) => {
    const base = await startFreshServer(t)
    const folder = testFolder(t)
    mkdirSync(folder, { recursive: true })
    const file = join(folder, 'collection.json')
    const report = join(folder, 'report.json')
    writeFileSync(file, JSON.stringify(await readCollection(base, version, 'postman')))
    const variables = ['--env-var', `base_url=${base}`, '--env-var', `api_key=${ADMIN.key}`]
    const options = ['--reporters', 'json', '--reporter-json-export', report]
    const { code, output } = await runTool('newman', ['run', file, ...variables, ...options])
    t.equal(code, 0, output)
    const { run }: Json = requireTool(report)
    t.equal(run.stats.requests.total, await countOperations(base, version))
    t.same(
      run.failures.map(({ source, error }: Json) => [source.name, error.message]),
      [],
    )
    const statuses: number[] = run.executions.map(({ response }: Json) => response.code)
    t.ok(statuses.every((status) => status >= 200 && status < 300))
  })

  t.test(`Bruno imports and runs the Bruno collection of version ${version}`, async (t) => {
    const base = await startFreshServer(t)
    const folder = join(testFolder(t), 'bruno')
    mkdirSync(folder, { recursive: true })
    const collection = importIntoBruno(await readCollection(base, version, 'bruno'))
    const { collectionSchema } = requireTool('@usebruno/schema')
    await collectionSchema.validate(collection)
    // The folder of files that the application writes; its command line runs only those.
    const { createCollectionFromBrunoObject } = requireTool('@usebruno/cli/src/utils/collection.js')
    await createCollectionFromBrunoObject(collection, folder, { format: 'bru' })
    const variables = ['--env-var', `base_url=${base}`, '--env-var', `api_key=${ADMIN.key}`]
    const report = join(folder, 'report.json')
    // The other sandbox, of WebAssembly, may be loaded only after the first request, whose assertions then fail.
    const args = [
      'run',
      '--sandbox',
      'developer',
      '-r',
      '--env',
      'Server',
      ...variables,
      '--reporter-json',
      report,
    ]
    const { code, output } = await runTool('bru', args, { cwd: folder })
    t.equal(code, 0, output)
    const [{ summary }]: Json = requireTool(report)
    const total = await countOperations(base, version)
    t.match(summary, { totalRequests: total, passedRequests: total, failedRequests: 0, failedAssertions: 0 })
  })
}
