/** The versions of PostgreSQL that the README and compose.yaml name are those that .ci/run tests. */
import { readFileSync } from 'node:fs'
import t from 'tap'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('compose.yaml and the README name versions that are tested', async (t) => {
  const majors = [...read('.ci/run').matchAll(/^ *test_versions \S+ (\d+)\./gm)].map(([, major]) => major)
  t.equal(/image: postgres:(\d+)@sha256:/.exec(read('compose.yaml'))?.[1], majors[0])
  // Debian's is 15.
  t.match(read('README.md'), `PostgreSQL 15, ${majors.join(' and ')}. MIT`)
})
