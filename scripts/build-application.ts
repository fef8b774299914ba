/** Adds the files of the application to the build of `create-resource-api`, which writes new ones from them. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const target = join(root, 'packages/create/dist/application')
const guides = join(root, 'packages/create/dist/docs')

/** The packages of this repository, which `npm update` keeps in step. */
const SCOPE = '@resource-api/'

rmSync(target, { recursive: true, force: true })
for (const path of ['src', 'plugins', 'schemas', 'drizzle', 'drizzle.config.ts'])
  cpSync(join(root, path), join(target, path), { recursive: true })

// The promises of its access. The build of the image has no tests.
const promises = 'test/access-matrix.json'
if (existsSync(join(root, promises))) cpSync(join(root, promises), join(target, promises))

rmSync(guides, { recursive: true, force: true })
// The build of the image has no docs.
for (const path of ['adopters', 'callers', 'operators'].filter((each) =>
  existsSync(join(root, 'docs', each)),
))
  cpSync(join(root, 'docs', path), join(guides, path), { recursive: true })

const { version, engines, type, imports, scripts, dependencies, devDependencies, overrides, allowScripts } =
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const pick = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, devDependencies[name]]))
const manifest = {
  ...{ version: '0.1.0', private: true, type, engines, imports },
  scripts: {
    build: 'tsc -p tsconfig.build.json',
    prestart: 'npm run --silent build',
    start: 'node dist/src/server.js',
    dev: 'tsx watch src/server.ts',
    // `tap build` applies the plugins of `tap` below.
    prepare: scripts.prepare,
    test: 'tap node_modules/@resource-api/testing/dist/run/*.run.js',
    'test:file': 'tap',
    lint: 'biome check --error-on-warnings .',
    format: 'biome check --write .',
    typecheck: 'tsc',
    migrations: 'drizzle-kit generate',
  },
  dependencies: Object.fromEntries(
    Object.entries<string>(dependencies).map(([name, exact]) => [
      name,
      name.startsWith(SCOPE) ? `^${exact}` : exact,
    ]),
  ),
  devDependencies: {
    ...pick(['@biomejs/biome', '@types/node', 'drizzle-kit', 'tap', 'tsx', 'typescript']),
    [`${SCOPE}testing`]: `^${version}`,
    'create-resource-api': `^${version}`,
  },
  tap: {
    // tap's own plugin does not run with TypeScript 7.
    plugin: ['!@tapjs/typescript', '!@tapjs/mock'],
    // The application is declared before the packages are loaded.
    'node-arg': ['--import=tsx', '--import=./src/application.ts'],
    ...{ jobs: 2, timeout: 300, 'disable-coverage': true, 'allow-empty-coverage': true },
  },
  overrides,
  allowScripts,
  // `resource-api upgrade` writes what the code needs from this version on.
  resourceApi: { version },
}
writeFileSync(join(target, 'package.json'), JSON.stringify(manifest))

// Not a file of the repository: Biome takes one in a folder for another configuration.
const {
  formatter,
  javascript,
  linter,
  overrides: [tests],
} = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'))
const biome = {
  $schema: './node_modules/@biomejs/biome/configuration_schema.json',
  files: { includes: ['**', '!.tap', '!dist', '!data', '!drizzle/migrations'] },
  ...{ formatter, javascript, linter, overrides: [tests] },
}
// In the form that it demands itself. The build of the image has no file of Git.
const format = ['format', '--vcs-enabled=false', '--stdin-file-path=biome.json']
const formatted = execFileSync(
  process.execPath,
  [join(root, 'node_modules/@biomejs/biome/bin/biome'), ...format],
  { cwd: root, input: JSON.stringify(biome), encoding: 'utf8' },
)
writeFileSync(join(target, 'biome.json'), formatted)
