/** Adds the files of the application to the build of `create-resource-api`, which writes new ones from them. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PACKED_GUIDES, toPackedPage } from './packed-page.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const target = join(root, 'packages/create/dist/application')
const guides = join(root, 'packages/create/dist/docs')

/** The packages of this repository, which `npm update` keeps in step. */
const SCOPE = '@resource-api/'

rmSync(target, { recursive: true, force: true })
for (const path of ['src', 'plugins', 'schemas', 'drizzle', 'templates', 'drizzle.config.ts'])
  cpSync(join(root, path), join(target, path), { recursive: true })

// The promises of its access. The build of the image has no tests.
const promises = 'test/access-matrix.json'
if (existsSync(join(root, promises))) cpSync(join(root, promises), join(target, promises))

rmSync(guides, { recursive: true, force: true })
// The build of the image has no docs.
for (const folder of PACKED_GUIDES.filter((each) => existsSync(join(root, 'docs', each)))) {
  cpSync(join(root, 'docs', folder), join(guides, folder), { recursive: true })
  for (const name of readdirSync(join(guides, folder)).filter((each) => each.endsWith('.md'))) {
    const file = join(guides, folder, name)
    writeFileSync(file, toPackedPage(`docs/${folder}/${name}`, readFileSync(file, 'utf8')))
  }
}

// With a leading underscore, as the other files whose names begin with a dot, and with the names of a new application.
writeFileSync(
  join(target, '_env.example'),
  readFileSync(join(root, '.env.example'), 'utf8')
    .replaceAll('docs/operators', 'node_modules/create-resource-api/dist/docs/operators')
    .replace(/=resource-api$/gm, '={{name}}'),
)

const { version, engines, type, scripts, dependencies, devDependencies, overrides, allowScripts } =
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const pick = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, devDependencies[name]]))

/** Packages that an application installs if its settings need them. The application of this repository has all of them. */
const optional = ['database', 'http', 'docs'].flatMap((name) => {
  const file = join(root, `packages/${name}/package.json`)
  const { peerDependencies }: { peerDependencies: object } = JSON.parse(readFileSync(file, 'utf8'))
  return Object.keys(peerDependencies)
})
/** The embedded database, of which the package names one exact version: `npm update` moves both. */
const EMBEDDED = '@electric-sql/pglite'

const manifest = {
  ...{ version: '0.1.0', private: true, type, engines },
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
    Object.entries<string>(dependencies)
      .filter(([name]) => !optional.includes(name))
      .map(([name, exact]) => [name, name.startsWith(SCOPE) ? `^${exact}` : exact]),
  ),
  devDependencies: {
    ...pick(['@biomejs/biome', '@types/node', 'drizzle-kit', 'tap', 'tsx', 'typescript']),
    [EMBEDDED]: `^${dependencies[EMBEDDED]}`,
    // For the file that `resource-api client` writes.
    [`${SCOPE}client`]: `^${version}`,
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
