/** `npm run rename` in a copy of the repository: what it leaves compiles, passes the linter, and has no other name. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const copy = join(testFolder(t), 'copy')

const run = (command: string, ...args: string[]) => {
  try {
    return { code: 0, output: execFileSync(command, args, { cwd: copy, encoding: 'utf8', stdio: 'pipe' }) }
  } catch (error) {
    const {
      status = -1,
      stdout = '',
      stderr = '',
    } = error as {
      status?: number
      stdout?: string
      stderr?: string
    }
    return { code: status, output: stdout + stderr }
  }
}
const rename = (...args: string[]) => run('node', '--import', 'tsx', 'scripts/rename.ts', ...args)
const read = (path: string) => readFileSync(join(copy, path), 'utf8')

execFileSync('git', ['clone', '--quiet', root, copy])
// What is not committed yet is tried too.
const listed = execFileSync('git', ['ls-files', '-z', '--modified', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
for (const path of listed.split('\0').filter((each) => each !== '' && existsSync(join(root, each)))) {
  cpSync(join(root, path), join(copy, path))
}
run('git', 'add', '--all')
run('git', '-c', 'user.name=test', '-c', 'user.email=test@example.com', 'commit', '--quiet', '-m', 'changes')
cpSync(join(root, 'node_modules'), join(copy, 'node_modules'), { recursive: true, verbatimSymlinks: true })
if (existsSync(join(root, 'client/node_modules')))
  symlinkSync(join(root, 'client/node_modules'), join(copy, 'client/node_modules'))

t.test('names that packages, units or objects of Kubernetes cannot have change nothing', async (t) => {
  for (const name of ['', 'Clinic', 'clinic_api', 'clinic api', '-x', 'a--b', 'x'.repeat(41), '../x']) {
    const { code, output } = rename(name)
    t.equal(code, 2, name)
    t.match(output, /is not a name|Usage/)
  }
  t.equal(run('git', 'status', '--porcelain').output, '')
})

t.test('the name is replaced in all files and in their names', async (t) => {
  const { code, output } = rename('clinic-api')
  t.equal(code, 0, output)
  t.match(output, /resource-api is clinic-api now, in \d{2,} files/)
  run('git', 'add', '--all')
  t.equal(run('git', 'grep', '-lIE', 'resource[-_]api|RESOURCE_API').output, 'LICENSE\n')
  t.notMatch(run('git', 'ls-files').output, 'resource-api')
  t.same(JSON.parse(read('package.json')).bin, { 'clinic-api': 'dist/src/cli.js' })
  t.equal(JSON.parse(read('client/package.json')).name, '@clinic-api/client')
  t.match(read('lib/identity.ts'), "'CLINIC_API_KEY'")
  t.match(read('deploy/helm/clinic-api/Chart.yaml'), /^name: clinic-api$/m)
  t.match(rename('other-api').output, 'has changes', 'changes that are not committed are not mixed with it')
})

t.test('what it leaves compiles, passes the linter, and has the documents of its code', async (t) => {
  // As `npm install` does.
  renameSync(join(copy, 'node_modules/@resource-api'), join(copy, 'node_modules/@clinic-api'))
  for (const script of ['format', 'docs', 'typecheck', 'lint']) {
    const { code, output } = run('npm', 'run', '--silent', script)
    t.equal(code, 0, output)
  }
  t.match(read('docs/openapi/v1.json'), '"title": "clinic-api"')
})
