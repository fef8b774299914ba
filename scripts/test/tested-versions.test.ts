/** The versions of Node.js and PostgreSQL that the README and compose.yaml name are those of the nightly jobs. */
import { readFileSync } from 'node:fs'
import t from 'tap'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** Returns the major versions in the matrix of a job. */
function readMatrix(name: string): string[] {
  const [, list = ''] =
    new RegExp(`^ +${name}: \\[(.+)\\]$`, 'm').exec(read('.github/workflows/nightly.yml')) ?? []
  return [...list.matchAll(/'(\d+)/g)].map(([, major = '']) => major)
}

t.test('compose.yaml and the README name versions that are tested', async (t) => {
  const postgres = readMatrix('postgres')
  const [, composed = ''] = /image: postgres:(\d+)@sha256:/.exec(read('compose.yaml')) ?? []
  t.ok(postgres.includes(composed), `PostgreSQL ${composed} is one of ${postgres}`)
  const node = readMatrix('node')
  const [first = '', last = ''] = [postgres[0], postgres.at(-1)]
  t.equal(postgres.length, Number(last) - Number(first) + 1, 'no version between them is left out')
  const nodes = `${node.slice(0, -1).join(', ')} and ${node.at(-1)}`
  t.match(read('README.md'), `Tested with Node.js ${nodes} and PostgreSQL ${first} to ${last} (`)
})

t.test('the quick tests run on the Node.js of the image, here and on GitHub', async (t) => {
  const [, version] = /^FROM node:(\d+)/m.exec(read('Dockerfile')) ?? []
  t.match(read('.ci/run'), `install_node ${version})`)
  t.match(read('.github/workflows/ci.yml'), `node-version: ${version},`)
  t.match(read('packages/create/application/Dockerfile'), `FROM node:${version}-`)
})
