/** A Node.js that is not supported is refused in one line, before it can fail on a module. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { describeOldNode, NODE_VERSIONS } from '../../src/process/node-version.ts'

const read = (path: string) => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8')

t.test('versions that are not supported are refused with one line', async (t) => {
  for (const version of ['22.11.0', '21.7.3', '18.20.4', '20.18.3', '20.9.0', '16.0.0', '9.11.2']) {
    const message = `Node.js 20.19, or 22.12 or later, is required; this is ${version}`
    t.equal(describeOldNode(version), message)
  }
  for (const version of ['20.19.0', '20.20.2', '22.12.0', '24.0.0', '26.12.1', '100.1.0']) {
    t.equal(describeOldNode(version), undefined, version)
  }
})

t.test('the versions are those of both packages', async (t) => {
  const [old, rest] = NODE_VERSIONS
  for (const file of ['package.json', 'packages/client/package.json']) {
    t.equal(JSON.parse(read(file)).engines.node, `^${old} || >=${rest}`, file)
  }
})

// Node.js links all static imports before it runs any code, and an old one fails on a name that a module lacks.
t.test('the entry files import nothing before the check', async (t) => {
  for (const file of ['src/server.ts', 'src/cli.ts']) {
    const imports = read(file).match(/^(?:import|export) .*$/gm)
    t.same(imports, ["import { requireNodeVersion } from '@resource-api/http/node-version'"], file)
    t.match(read(file), /^requireNodeVersion\(\)$/m, file)
  }
  t.notMatch(read('packages/http/src/process/node-version.ts'), /^import /m)
})
