/**
 * In a copy of the repository, a fourth role is one line of schemas/roles.ts, and a code of one's own one of
 * schemas/own-codes.ts: types, rules, documents and commands follow.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { copyRepository, TEST_OPTIONS } from './repository-copy.ts'

const { copy, read, run: runNode } = copyRepository(t)
const run = (...args: string[]) => runNode(args)

t.test('the lines are added', async (t) => {
  const before = read('schemas/roles.ts')
  const after = before.replace("['member', ", "['auditor', 'member', ")
  t.not(after, before)
  writeFileSync(join(copy, 'schemas/roles.ts'), after)
  const codes = read('schemas/own-codes.ts').replace('= {', "= {\n  OVERLAP: 'The time is taken',")
  writeFileSync(join(copy, 'schemas/own-codes.ts'), codes)
})

t.test('the types follow', async (t) => {
  const { code, stdout } = await run('node_modules/typescript/bin/tsc', '--noEmit')
  t.equal(code, 0, stdout.slice(-2000))
})

t.test('the documents, the matrix and the commands name them', async (t) => {
  const { code, stderr } = await run('--import', 'tsx', 'scripts/docs.ts')
  t.equal(code, 0, stderr)
  t.match(read('docs/permissions.md'), '| Resource | Operation | auditor | member | manager | admin |')
  t.match(read('docs/permissions.md'), '| users | read | own | own | all | all |')
  t.match(read('docs/permissions.md'), '| users | list | none | none | all | all |')
  t.match(read('client/src/openapi.ts'), 'UserRole: "auditor" | "member" | "manager" | "admin"')
  t.match(read('docs/openapi/v2.json'), 'admin: all; manager: all; member: none; auditor: none')
  t.match(read('client/src/openapi.ts'), '"OVERLAP"')
  t.match(read('docs/error-codes.md'), '| `OVERLAP` | The time is taken |')
  const help = await run('--import', 'tsx', 'src/cli.ts', 'users', 'create', '--help')
  t.match(help.stdout, '"auditor"')
})

t.test('every route answers it as its rules say: with nothing, where they do not name it', async (t) => {
  for (const file of ['test/resources/access-matrix.test.ts', 'test/resources/documented-access.test.ts']) {
    const { code, stdout } = await run(...TEST_OPTIONS, file)
    const failed = stdout.split('\n').filter((line) => /^ *(not ok|[-+])/.test(line))
    t.equal(code, 0, failed.slice(0, 40).join('\n'))
    t.match(stdout, file.includes('matrix') ? "auditor's key" : 'listUsers', file)
  }
})
