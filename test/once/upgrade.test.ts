/**
 * A project on the history of the product: it adds resources and renames the product, merges today's state without a
 * conflict, removes the shop, and merges a change of the shop.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { mergeJson } from '../../scripts/upgrade.ts'
import { testFolder } from '../helpers/database.ts'
import {
  clone,
  cloneProduct,
  commitAll,
  getTestArguments,
  git,
  linkPackages,
  root,
  runIn,
  shopOptions,
} from './git-clone.ts'

// The migrations have another time in each run. A server would keep a template database for each.
delete process.env.DATABASE_URL

const folder = testFolder(t)
const [product, project] = [join(folder, 'product'), join(folder, 'project')]

const npm = (script: string, ...args: string[]) =>
  runIn(project, 'npm', 'run', '--silent', script, '--', ...args)
/** Runs a command of today's product in the project. */
const runToday = (script: string, ...args: string[]) =>
  runIn(project, 'node', '--import', 'tsx', join(root, 'scripts', script), ...args)
const read = (path: string) => readFileSync(join(project, path), 'utf8')

/** The first commit in which all parts of a project are files of their own; undefined in a copy without history. */
const [layout] = git(
  root,
  ...['log', '--reverse', '--diff-filter=A', '--format=%H', '--', 'scripts/client-collections.ts'],
).split('\n')
const readName = (manifest: string): string => JSON.parse(manifest).name
/** False in a project with another name or without the shop. */
const isProduct =
  layout !== undefined &&
  shopOptions.skip === false &&
  readName(git(root, 'show', `${layout}:package.json`)) === readName(git(root, 'show', 'HEAD:package.json'))

t.test('members of package.json are merged one by one', (t) => {
  const base = { version: '1', dependencies: { a: '1', b: '1', c: '1' } }
  const ours = { version: '1', dependencies: { a: '1', b: '2', own: '1' } }
  const theirs = { version: '2', dependencies: { a: '2', b: '3', c: '1', d: '1' }, engines: {} }
  const dependencies = { a: '2', b: '2', d: '1', own: '1' }
  t.same(mergeJson(base, ours, theirs), { version: '2', dependencies, engines: {} })
  t.end()
})

t.test('upgrades', { skip: isProduct ? false : 'needs the product with its history' }, async (t) => {
  cloneProduct(product)
  clone(product, project)
  git(project, 'checkout', '--quiet', '-B', 'main', layout ?? '')
  linkPackages(project)

  t.test('an old state with resources and a name of its own gets the newest one', (t) => {
    t.equal(npm('new', 'patients', '--fields', 'name:text, born_on:date?').code, 0)
    t.equal(npm('new', 'rooms', '--fields', 'name:text, floor:integer(0..9)').code, 0)
    commitAll(project, 'Patients and rooms')
    // The command of the old state left the names of alerts.
    t.equal(runToday('rename.ts', 'clinic-api').code, 0)
    npm('format')
    const manifest = JSON.parse(read('package.json'))
    manifest.dependencies.own = '1.0.0'
    writeFileSync(join(project, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    commitAll(project, 'The name and a dependency')
    const own = read('src/own.ts')

    const { code, output } = runToday('upgrade.ts', 'origin/main')
    t.equal(code, 0, output)
    t.equal(read('src/own.ts'), own)
    const merged = JSON.parse(read('package.json'))
    t.equal(merged.name, 'clinic-api')
    t.equal(merged.dependencies.own, '1.0.0')
    t.equal(git(project, 'merge-base', 'HEAD', 'origin/main'), git(product, 'rev-parse', 'main'))
    t.equal(runIn(project, 'git', 'grep', '-lI', 'resource-api').output, 'LICENSE\n')
    t.equal(npm('docs').code, 0)
    commitAll(project, 'Generated files')
    t.match(npm('upgrade', 'origin/main').output, 'This project has all of origin/main already')
    t.end()
  })

  t.test('the shop is removed, and a change of the shop does not bring it back', (t) => {
    t.match(npm('remove', 'products'), {
      code: 2,
      output: /orders\.ts imports drizzle\/tables\/products\.ts/,
    })
    t.match(npm('remove', 'users'), { code: 2, output: /src\/app\.ts imports plugins\/resources\/users\.ts/ })
    t.match(npm('remove', 'teas'), { code: 2, output: /There is no plugins\/resources\/teas\.ts/ })
    t.equal(git(project, 'status', '--porcelain'), '')
    const { code, output } = npm('remove', 'orders', 'posts', 'products')
    t.equal(code, 0, output)
    const migration = readdirSync(join(project, 'drizzle/own-migrations')).find((name) => /remove/.test(name))
    t.match(read(`drizzle/own-migrations/${migration}`), 'DROP TABLE "order_products"')
    for (const version of ['v1', 'v2'])
      t.notMatch(read(`docs/openapi/${version}.json`), /\/(orders|posts|products)\b/)
    t.notMatch(read('docs/openapi/v1.json'), 'INSUFFICIENT_STOCK')
    t.match(npm('rename', 'other-api'), { code: 2, output: /has changes/ })
    commitAll(project, 'Without the shop')

    const definition = join(product, 'plugins/resources/products.ts')
    writeFileSync(definition, readFileSync(definition, 'utf8').replace('Goods that', 'All goods that'))
    mkdirSync(join(product, 'plugins/resources/orders'), { recursive: true })
    writeFileSync(join(product, 'plugins/resources/orders/more.ts'), '/** Another file. */\nexport {}\n')
    writeFileSync(join(product, 'lib/more.ts'), "export const more = 'resource-api'\n")
    commitAll(product, 'A change of the shop')
    const upgraded = npm('upgrade', 'origin/main')
    t.equal(upgraded.code, 0, upgraded.output)
    t.notOk(existsSync(join(project, 'plugins/resources/products.ts')))
    t.notOk(existsSync(join(project, 'plugins/resources/orders/more.ts')))
    t.equal(read('lib/more.ts'), "export const more = 'clinic-api'\n")
    t.match(npm('migrations', '--name', 'upgrade').output, 'No schema changes')
    t.end()
  })

  t.test('the same lines changed on both sides are a conflict that is named', (t) => {
    for (const [folder, text] of [
      [product, 'theirs'],
      [project, 'ours'],
    ] as const) {
      writeFileSync(join(folder, 'lib/more.ts'), `export const more = '${text}'\n`)
      commitAll(folder, `More of ${text}`)
    }
    t.match(npm('upgrade', 'origin/main'), {
      code: 1,
      output: /changed the same lines:\n {2}lib\/more\.ts\n/,
    })
    git(project, 'merge', '--abort')
    t.match(read('lib/more.ts'), 'ours')
    t.end()
  })

  t.test('it builds, and the tests of its resources are green', (t) => {
    for (const script of ['build', 'docs']) {
      const { code, output } = npm(script)
      t.equal(code, 0, output)
    }
    const { code, output } = runIn(project, 'node', ...getTestArguments(['patients', 'rooms']))
    t.equal(code, 0, output.slice(-2000))
    t.end()
  })
})
