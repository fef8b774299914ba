/**
 * The code samples of the documents: each operation has them, those for curl succeed against a new server, and those for
 * TypeScript compile with the client package.
 */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'
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

const getSource = ({ samples }: Sampled, lang: string): string =>
  samples.find((sample) => sample.lang === lang)?.source ?? ''

/** Returns the commands with an API key in an order in which they succeed, and the sign-in. */
function orderCommands(sampled: readonly Sampled[]): Sampled[] {
  const isOwn = (each: Sampled) =>
    each.operationId === 'createToken' || getSource(each, 'shell').includes('YOUR_API_KEY')
  return METHODS.flatMap((method) => {
    const own = sampled.filter((each) => isOwn(each) && each.method.toLowerCase() === method)
    return method === 'delete' ? own.reverse() : own
  })
}

for (const version of [1, 2]) {
  t.test(`the samples of version ${version}`, async (t) => {
    const { anybody, base } = await testApp(t)
    const { operations } = createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body)
    const sampled = operations.map(
      ({ operationId, method, declared }): Sampled => ({
        operationId,
        method,
        samples: declared['x-codeSamples'] ?? [],
      }),
    )
    const languages = version === 1 ? ['shell', 'typescript', 'python'] : ['shell', 'python']
    for (const { operationId, samples } of sampled) {
      t.match(
        samples,
        languages.map((lang) => ({ lang, source: base })),
        operationId,
      )
      t.equal(samples.length, languages.length, operationId)
    }

    const values = new Map([['YOUR_API_KEY', ADMIN_KEY]])
    for (const each of orderCommands(sampled)) {
      const command = getSource(each, 'shell').replaceAll(
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

    if (version !== 1) return
    const folder = testFolder(t)
    const files = sampled.map((each) => ({
      path: `${folder}/${each.operationId}.ts`,
      text: getSource(each, 'typescript'),
    }))
    for (const { path, text } of files) await writeFile(path, text)
    await writeFile(`${folder}/package.json`, '{ "type": "module" }')
    const client = new URL('../../client/src/index.ts', import.meta.url).pathname
    await writeFile(
      `${folder}/tsconfig.json`,
      JSON.stringify({
        extends: new URL('../../client/tsconfig.json', import.meta.url).pathname,
        compilerOptions: { noEmit: true, rootDir: '/', paths: { '@resource-api/client': [client] } },
        files: files.map(({ path }) => path),
      }),
    )
    const tsc = new URL('../../node_modules/typescript/bin/tsc', import.meta.url).pathname
    const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((error: Json) => error)
    t.equal(stdout, '', 'they compile')
  })
}
