/** The samples of the guide in curl and Python succeed against a new server, and each operation has one with the client. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createReplyChecker } from '../../../testing/src/reply-checker.ts'

const run = promisify(execFile)

/** Makes curl fail for statuses from 400, and prints only the body. */
const STRICT = 'set -euo pipefail; curl() { command curl --no-progress-meter --fail-with-body "$@"; }\n'
const PASSWORD = 'nine brass cogs, turning'

for (const version of [1, 2]) {
  t.test(`the samples of version ${version}`, async (t) => {
    const { admin, anybody, base, adminId } = await testApp(t)
    const { body: document } = await anybody.get(`/openapi/v${version}.json`)
    const { operations } = createReplyChecker(document)
    for (const { operationId, declared } of operations) {
      const samples: Json[] = declared['x-codeSamples'] ?? []
      const shown = samples.map(({ label, source }) => ({ label, namesServer: source.includes(base) }))
      t.same(shown, version === 1 ? [{ label: 'TypeScript', namesServer: true }] : [], operationId)
    }
    const list = operations.find(({ operationId }) => operationId === 'listProducts')
    if (version === 1)
      for (const name of ['status', 'sort', 'limit'])
        t.match(list?.declared['x-codeSamples'][0].source, `\n  ${name}: `)

    const email = 'operator@example.com'
    await admin.post('/api/v1/users', { name: 'Operator', email, password: PASSWORD, role: 'admin' })
    const grant = { grant_type: 'password', email, password: PASSWORD }
    const { body: tokens } = await anybody.post('/api/v1/tokens', grant)
    const values: Readonly<Record<string, string>> = {
      YOUR_API_KEY: ADMIN_KEY,
      YOUR_EMAIL: email,
      YOUR_PASSWORD: PASSWORD,
      YOUR_ACCESS_TOKEN: tokens.data.access_token,
      USER_ID: adminId,
      ETAG: '*',
    }
    const guide: string = document.info.description
    const blocks = [...guide.matchAll(/^```(sh|python)\n(.*?)^```/gms)].map(([, language, text = '']) => ({
      language,
      // STRICT has an option instead of --fail.
      text: text
        .replace('--fail ', '')
        .replaceAll(/YOUR_[A-Z_]+|USER_ID|ETAG/g, (name) => values[name] ?? name),
    }))
    const cwd = t.testdir({})
    let count = 0
    for (const { language, text } of blocks) {
      // How the client is installed, which packages/client/test/installed-package.once.test.ts does, and a stream, which does not end.
      if (/^(?:npm|claude) |event-stream/.test(text)) continue
      const [program, ...args] = language === 'sh' ? ['bash', '-c', STRICT + text] : ['python3', '-c', text]
      const { stdout } = await run(program ?? '', args, { cwd })
      if (!text.includes('-o users.csv')) t.not(stdout, '', text)
      count += 1
    }
    t.equal(count, 8)
  })
}
