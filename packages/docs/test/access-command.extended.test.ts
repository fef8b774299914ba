/** `resource-api access` compares the definitions with the file of the promises, and writes it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { MATRIX_FILE } from '../../resources/src/access-matrix/index.ts'
import { runCommand } from '../../testing/helpers/command.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const shipped = readFileSync(`${root}${MATRIX_FILE}`, 'utf8')

t.beforeEach((t) => process.chdir(t.testdir({})))
t.afterEach(() => process.chdir(root))

t.test('without the file it fails with the command that writes it, which needs no database', async (t) => {
  const missing = await runCommand(t, 'access')
  t.equal(missing.code, 1)
  t.match(missing.err, `There is no ${MATRIX_FILE}; npx resource-api access --write writes it`)
  t.match(await runCommand(t, 'access --write'), { code: 0, err: '' })
  t.equal(readFileSync(MATRIX_FILE, 'utf8'), shipped)
  t.same(await runCommand(t, 'access'), {
    code: 0,
    out: `${MATRIX_FILE} is what the definitions grant\n`,
    err: '',
  })
})

t.test('it prints each rule that differs, and --write updates it', async (t) => {
  mkdirSync('test')
  const promised = JSON.parse(shipped)
  promised.products.list.member = 'all'
  promised.products.list.anonymous = 'active'
  delete promised.orders.remove
  promised.papers = { list: { admin: 'all' } }
  writeFileSync(MATRIX_FILE, JSON.stringify(promised))
  const { code, out, err } = await runCommand(t, 'access')
  t.equal(code, 1)
  t.equal(
    out.replaceAll(/^\S+: /gm, ''),
    `the rules of orders, remove
  + "admin": "all"
the rules of papers, list
  - "admin": "all"
the rules of products, list
  - "anonymous": "active"
  - "member": "all"
  + "member": "active"
`,
  )
  t.match(err, `access failed: 3 rules differ from ${MATRIX_FILE}`)
  t.equal(readFileSync(MATRIX_FILE, 'utf8'), JSON.stringify(promised))
  t.equal((await runCommand(t, 'access --write')).code, 0)
  t.equal(readFileSync(MATRIX_FILE, 'utf8'), shipped)
})

t.test('it prints the file and the line of a rule', async (t) => {
  mkdirSync('test')
  mkdirSync('plugins')
  writeFileSync('plugins/products.ts', readFileSync(`${root}plugins/products.ts`))
  writeFileSync(MATRIX_FILE, shipped.replace('"member": "active"', '"member": "all"'))
  const { out } = await runCommand(t, 'access')
  const [, line] = /^plugins\/products\.ts:(\d+): the rules of products, list$/m.exec(out) ?? []
  t.match(readFileSync('plugins/products.ts', 'utf8').split('\n')[Number(line) - 1], /toReads\(/)
})

t.test('a file of another form is refused', async (t) => {
  mkdirSync('test')
  for (const [text, message] of [
    ['{', `${MATRIX_FILE} is not JSON`],
    ['{"products":[]}', `${MATRIX_FILE} should have objects and texts alone`],
  ] as const) {
    writeFileSync(MATRIX_FILE, text)
    t.match(await runCommand(t, 'access'), { code: 1, err: message })
  }
})
