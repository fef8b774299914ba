/** The tables of docs/permissions.md are those of docs/access-matrix.json. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { formatMatrixTables } from '../helpers/access-matrix.ts'

const page = readFileSync(new URL('../../docs/permissions.md', import.meta.url), 'utf8')

t.test('the tables match access-matrix.json', async (t) => {
  const shown = /<!-- matrix -->\n([\s\S]*?)\n<!-- \/matrix -->/.exec(page)?.[1]?.trim()
  t.equal(shown, formatMatrixTables(), 'what stands between the markers of docs/permissions.md')
})
