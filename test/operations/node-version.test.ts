/** A Node.js that is too old is refused in one line, before it can fail on a module. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { describeOldNode, MIN_NODE_VERSION } from '../../src/node-version.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('versions before the minimum are refused with one line', async (t) => {
  for (const version of ['18.20.4', '20.18.3', '20.9.0', '16.0.0', '9.11.2']) {
    t.equal(describeOldNode(version), `resource-api requires Node.js 20.19 or later; this is ${version}`)
  }
  for (const version of ['20.19.0', '20.20.2', '22.0.0', '24.21.0', '100.1.0', '21.0.0-nightly']) {
    t.equal(describeOldNode(version), undefined, version)
  }
})

t.test('the minimum is that of package.json', async (t) => {
  t.equal(JSON.parse(read('package.json')).engines.node, `>=${MIN_NODE_VERSION}`)
})

// Node.js links all static imports before it runs any code, and an old one fails on a name that a module lacks.
t.test('the entry files import nothing before the check', async (t) => {
  for (const file of ['src/server.ts', 'src/cli.ts']) {
    const imports = read(file).match(/^(?:import|export) .*$/gm)
    t.same(imports, ["import { requireNodeVersion } from './node-version.ts'"], file)
    t.match(read(file), /^requireNodeVersion\(\)$/m, file)
  }
  t.same(read('src/node-version.ts').match(/^import .*$/gm), [
    "import { identity } from '../lib/identity.ts'",
  ])
  t.notMatch(read('lib/identity.ts'), /^import /m)
})
