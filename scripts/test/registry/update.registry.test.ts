/**
 * The way of a release to its users, through a registry: the workflow publishes all packages, `npm create` writes an
 * application, which grows, and `npm update` brings it to the next release, with its data.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { testFolder } from '../../../packages/testing/helpers/database.ts'
import { runWith } from '../created-application.ts'
import { cloneProduct, commitAll, git, linkPackages } from '../git-clone.ts'
import { startApplication } from '../start-application.ts'
import { startRegistry } from './registry.ts'

t.setTimeout(1_800_000)

const ADMIN_API_KEY = 'the-key-of-an-admin-of-the-test-of-updates'
const folder = testFolder(t)
const registry = await startRegistry(t, join(folder, 'registry'))
const env = {
  ...{ PATH: process.env.PATH, HOME: folder, ADMIN_API_KEY },
  ...{ npm_config_registry: registry.url, npm_config_update_notifier: 'false', npm_config_audit: 'false' },
}

/** Runs a script of bash that has to succeed. @returns its output and its errors */
const run = (t: Test, cwd: string, settings: NodeJS.ProcessEnv, script: string) =>
  runWith(t, cwd, settings, 'bash', '-eo', 'pipefail', '-c', `{ ${script}\n} 2>&1`)

const repository = join(folder, 'repository')
cloneProduct(repository)
linkPackages(repository)

/** Changes the text of a file of the repository, which has to have what is replaced. */
function change(path: string, from: string | RegExp, to: string): void {
  const text = readFileSync(join(repository, path), 'utf8')
  const changed = text.replace(from, to)
  if (changed === text) throw new Error(`${path} has no ${from}`)
  writeFileSync(join(repository, path), changed)
}

/** Releases a version, and publishes its packages by the steps of the workflow. */
function publish(t: Test, version: string): void {
  commitAll(repository, 'Changes')
  run(t, repository, env, `npm run --silent release -- ${version}`)
  run(t, repository, env, 'npm run --silent build')
  const { jobs } = parse(readFileSync(join(repository, '.github/workflows/release.yml'), 'utf8'))
  const step: string = jobs.packages.steps.at(-1).run
  // Only GitHub says where a package was built.
  const script = step.replace(' --provenance', '')
  t.not(script, step)
  const settings = {
    ...{ TAG: `v${version}`, NPM_TOKEN: registry.token, GITHUB_REPOSITORY: 'ada/api' },
    GITHUB_SERVER_URL: 'https://git.example',
  }
  run(t, repository, { ...env, ...settings }, script)
  git(repository, 'reset', '--quiet', '--hard')
}

const shop = join(folder, 'shop-api')
const check = (t: Test) => {
  for (const script of ['lint', 'typecheck', 'test']) run(t, shop, env, `npm run --silent ${script}`)
}
const readInstalled = (name: string): { version: string } =>
  JSON.parse(readFileSync(join(shop, 'node_modules', name, 'package.json'), 'utf8'))
const readManifest = () => JSON.parse(readFileSync(join(shop, 'package.json'), 'utf8'))
const countCopies = (t: Test, name: string) =>
  run(t, shop, env, `find . -type d -path '*/node_modules/${name}'`).trim().split('\n').length

let reviewer = ''

t.test('an application is created from the registry, and gets a resource', async (t) => {
  publish(t, '0.1.0')
  run(t, folder, env, 'npm create --yes resource-api shop-api -- --example shop')
  const installed = run(t, shop, env, 'npm install')
  t.notMatch(installed, /warn/i, 'the installation has no warnings')
  run(
    t,
    shop,
    env,
    `npx resource-api new reviews --owner user_id --unique user_id,product_id --visible all \\
      --fields 'product_id:ref(products, cascade)!, rating:integer(1..5), comment:multiline(1..2000)?'`,
  )
  check(t)
  const server = await startApplication(t, shop, env)
  const { status, text } = await server.send('POST', '/api/v1/users', {
    name: 'Ada',
    email: 'ada@example.com',
  })
  t.equal(status, 201, text)
  reviewer = JSON.parse(text).data.id
  await server.stop()
})

t.test('npm update installs the next release, with another version of Drizzle', async (t) => {
  // The present one is what the application has.
  const [before, after] = ['0.45.4', '0.45.3']
  run(
    t,
    repository,
    env,
    `sed -i 's/"drizzle-orm": "${before}"/"drizzle-orm": "${after}"/' package.json packages/*/package.json`,
  )
  const migrations = 'packages/database/migrations'
  change(
    `${migrations}/meta/_journal.json`,
    /\}\n {2}\]/,
    `},{"idx":1,"version":"7","when":${Date.now()},"tag":"20990101000000_next","breakpoints":true}]`,
  )
  writeFileSync(
    join(repository, migrations, '20990101000000_next.sql'),
    `update users set name = 'Migrated' where name = 'Ada'`,
  )
  change('CHANGELOG.md', '## [Unreleased]\n', '## [Unreleased]\n\n### Fixed\n\n- Something.\n')
  publish(t, '0.1.1')

  run(t, shop, env, 'npm update')
  t.equal(readInstalled('@resource-api/resources').version, '0.1.1')
  t.match(
    run(t, shop, env, 'npx resource-api upgrade'),
    'the versions of drizzle-orm are those of the packages',
  )
  run(t, shop, env, 'npm update')
  t.equal(readManifest().dependencies['drizzle-orm'], after)
  t.equal(countCopies(t, 'drizzle-orm'), 1, 'npm installs it once')
  check(t)
  const server = await startApplication(t, shop, env)
  t.match(await server.send('GET', `/api/v1/users/${reviewer}`), { status: 200, text: '"Migrated"' })
  await server.stop()
})

t.test('the next minor release is installed after its number was raised', async (t) => {
  change('CHANGELOG.md', '## [Unreleased]\n', '## [Unreleased]\n\n### Breaking\n\n- Something.\n')
  publish(t, '0.2.0')
  run(t, shop, env, 'npm update')
  t.equal(readInstalled('@resource-api/resources').version, '0.1.1', 'not by npm update alone')
  run(
    t,
    shop,
    env,
    `sed -Ei 's/("(@resource-api\\/.*|create-resource-api)": )".*"/\\1"^0.2.0"/' package.json`,
  )
  run(t, shop, env, 'npm update')
  t.match(run(t, shop, env, 'npx resource-api upgrade'), 'package.json has the versions of the packages')
  check(t)
  const server = await startApplication(t, shop, env)
  t.match(await server.send('GET', `/api/v1/users/${reviewer}`), { status: 200, text: '"Migrated"' })
  t.match(await server.send('GET', '/api/v1/reviews'), { status: 200 })
  await server.stop()
})
