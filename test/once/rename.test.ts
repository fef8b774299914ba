/**
 * `npm run rename`, and then `npm run remove` of the shop, in a copy of the repository: what they leave builds, passes the
 * linter and the tests, and has no other name and no shop.
 */
import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../helpers/database.ts'
import { cloneProduct, commitAll, linkPackages, runIn, shopOptions, TEST_OPTIONS } from './git-clone.ts'

// The migrations of the copy have other times in each run. A server would keep a template database for each.
delete process.env.DATABASE_URL
// The tests of an area take longer than a file usually may.
process.env.TAP_TIMEOUT = '600'
t.setTimeout(1_800_000)

const copy = join(testFolder(t), 'copy')
const run = (command: string, ...args: string[]) => runIn(copy, command, ...args)
const rename = (...args: string[]) => run('node', '--import', 'tsx', 'scripts/rename.ts', ...args)
const read = (path: string) => readFileSync(join(copy, path), 'utf8')

cloneProduct(copy)
linkPackages(copy)

t.test('names that packages, units or objects of Kubernetes cannot have change nothing', async (t) => {
  for (const name of ['', 'Clinic', 'clinic_api', 'clinic api', '-x', 'a--b', 'x'.repeat(41), '../x']) {
    const { code, output } = rename(name)
    t.equal(code, 2, name)
    t.match(output, /is not a name|Usage/)
  }
  t.equal(run('git', 'status', '--porcelain').output, '')
})

t.test('the name is replaced in all files and in their names', async (t) => {
  const { code, output } = rename('renamed-api')
  t.equal(code, 0, output)
  t.match(output, /resource-api is renamed-api now, in \d{2,} files/)
  run('git', 'add', '--all')
  t.equal(run('git', 'grep', '-lIE', 'resource[-_]api|RESOURCE_API|ResourceApi').output, 'LICENSE\n')
  t.notMatch(run('git', 'ls-files').output, 'resource-api')
  t.same(JSON.parse(read('package.json')).bin, { 'renamed-api': 'dist/src/cli.js' })
  t.equal(JSON.parse(read('client/package.json')).name, '@renamed-api/client')
  t.match(read('lib/identity.ts'), "'RENAMED_API_KEY'")
  t.match(read('deploy/prometheus/alerts.yaml'), 'alert: RenamedApiErrors')
  t.match(read('deploy/helm/renamed-api/Chart.yaml'), /^name: renamed-api$/m)
  t.match(rename('other-api').output, 'has changes', 'changes that are not committed are not mixed with it')
})

t.test('what it leaves compiles, passes the linter, and has the documents of its code', async (t) => {
  // As `npm install` does.
  renameSync(join(copy, 'node_modules/@resource-api'), join(copy, 'node_modules/@renamed-api'))
  for (const script of ['format', 'docs', 'typecheck', 'lint']) {
    const { code, output } = run('npm', 'run', '--silent', script)
    t.equal(code, 0, output)
  }
  t.match(read('docs/openapi/v1.json'), '"title": "renamed-api"')
})

t.test('without the shop, it builds, and its documents and client do not name it', shopOptions, async (t) => {
  commitAll(copy, 'Changes')
  const removal = run('npm', 'run', '--silent', 'remove', '--', 'orders', 'posts', 'products')
  t.equal(removal.code, 0, removal.output)
  t.match(removal.output, 'docs/quick-start.md', 'pages that show it are named')
  commitAll(copy, 'Changes')
  for (const script of ['build', 'typecheck', 'lint', 'docs']) {
    const { code, output } = run('npm', 'run', '--silent', script)
    t.equal(code, 0, output)
  }
  t.equal(run('git', 'status', '--porcelain').output, '', 'what is generated is current')
  const served = ['docs/openapi', 'client']
  t.equal(run('git', 'grep', '-nwiE', 'products?|orders|posts|stock|sku', '--', ...served).output, '')
})

/**
 * The areas that depend on the project's own resources, its documents, its client or its name. In the others the app has
 * the fixtures.
 */
for (const area of ['resources', 'docs', 'client-package']) {
  t.test(`the tests of ${area} pass`, async (t) => {
    const file = `test/areas/${area}.test.ts`
    const { code, output } = run('node', ...TEST_OPTIONS, '--import=./test/fixtures/register.ts', file)
    const failed = output.split('\n').filter((line) => /^ *not ok/.test(line))
    t.equal(code, 0, failed.slice(0, 20).join('\n'))
  })
}
