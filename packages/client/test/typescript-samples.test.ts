/** The samples for TypeScript in the documentation of this project compile with its client. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { type Json, testApp } from '../../testing/helpers/app.ts'
import { testFolder } from '../../testing/helpers/database.ts'
import { createReplyChecker } from '../../testing/src/reply-checker.ts'

const run = promisify(execFile)

t.test('the samples compile', async (t) => {
  const { anybody } = await testApp(t)
  const { operations } = createReplyChecker((await anybody.get('/openapi/v1.json')).body)
  const folder = testFolder(t)
  const files = operations.map(({ operationId, declared }) => ({
    path: `${folder}/${operationId}.ts`,
    text: declared['x-codeSamples'].find(({ lang }: Json) => lang === 'typescript').source,
  }))
  for (const { path, text } of files) await writeFile(path, text)
  await writeFile(`${folder}/package.json`, '{ "type": "module" }')
  const client = new URL('../src/index.ts', import.meta.url).pathname
  await writeFile(
    `${folder}/tsconfig.json`,
    JSON.stringify({
      extends: new URL('../tsconfig.json', import.meta.url).pathname,
      compilerOptions: { noEmit: true, rootDir: '/', paths: { '@resource-api/client': [client] } },
      files: files.map(({ path }) => path),
    }),
  )
  const tsc = new URL('../../../node_modules/typescript/bin/tsc', import.meta.url).pathname
  const { code = 0, stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((error: Json) => error)
  t.same({ code, stdout }, { code: 0, stdout: '' })
})
