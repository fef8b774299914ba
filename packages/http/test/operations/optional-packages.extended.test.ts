/** A server whose settings need an optional package that is not installed says in one line what to install. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, startModule } from '../../../testing/helpers/process.ts'

/** Resolves a module from the root of the file system, where it is not, by the hooks of Node.js. */
const hide = (name: string) => {
  const hooks = `export const resolve = (specifier, context, next) =>
    next(specifier, specifier.startsWith(${JSON.stringify(name)}) ? { ...context, parentURL: 'file:///' } : context)`
  const toUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  return `--import=${toUrl(`import { register } from 'node:module'; register(${JSON.stringify(toUrl(hooks))})`)}`
}

/** Returns the peer dependencies of a package as arguments of npm, all of which are optional. */
function readPeers(name: string): string {
  const file = new URL(`../../../${name}/package.json`, import.meta.url)
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(readFileSync(file, 'utf8'))
  t.same(
    peerDependenciesMeta,
    Object.fromEntries(Object.keys(peerDependencies).map((each) => [each, { optional: true }])),
  )
  return Object.entries(peerDependencies)
    .map((each) => each.join('@'))
    .join(' ')
}

const MISSING = [
  {
    name: '@electric-sql/pglite',
    owner: 'database',
    settings: { DATABASE_URL: '' },
    purpose: 'The embedded database, which is used without DATABASE_URL,',
  },
  {
    name: '@opentelemetry/',
    owner: 'http',
    settings: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' },
    purpose: 'OTEL_EXPORTER_OTLP_ENDPOINT',
  },
  { name: '@modelcontextprotocol/', owner: 'docs', settings: { MCP: 'true' }, purpose: 'MCP=true' },
]

for (const { name, owner, settings, purpose } of MISSING)
  t.test(`a server that needs ${name} and does not have it says how to install it`, async (t) => {
    const given = { ...(await createServerSettings(t)), DATA_DIR: testFolder(t), ...settings }
    const { ended, output } = startModule(t, 'server.ts', given, [], [hide(name)])
    t.equal((await ended).code, 1)
    t.equal(
      output.err.trim(),
      `The service cannot start: ${purpose} needs packages that are not installed. Install them: npm install --save-prod ${readPeers(owner)}`,
    )
  })

t.test('a server that lacks a module of its own names that, and no package', async (t) => {
  const given = { ...(await createServerSettings(t)), DATA_DIR: testFolder(t), MCP: 'true' }
  // Loaded with what needs the optional packages of the MCP.
  const { ended, output } = startModule(t, 'server.ts', given, [], [hide('./omit-nulls.')])
  t.equal((await ended).code, 1)
  t.match(output.err, /^The service cannot start: .*omit-nulls/)
  t.notMatch(output.err, /npm install/)
})
