/** The statement of docs/operators/upgrading.md sets the sequences of a server to which the rows were replicated. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { testDatabase } from '../../testing/helpers/database.ts'
import type { Database } from '../src/client/index.ts'

const page = readFileSync(new URL('../../../docs/operators/upgrading.md', import.meta.url), 'utf8')
const [, statement = ''] = /<<'SQL' \| psql \$NEW\n([\s\S]*?);\n\s*SQL\n/.exec(page) ?? []

t.test('the sequences go on after the last numbers of the old server', async (t) => {
  const [former, next] = [await testDatabase(t), await testDatabase(t)]
  const draw = async (database: Database, sequence: string) =>
    (await database.run(`select nextval('${sequence}') as number`))[0]?.number
  for (let i = 0; i < 7; i += 1) await draw(former, 'order_numbers')
  for (const { format } of await former.run(statement)) await next.run(String(format))
  t.equal(await draw(next, 'order_numbers'), 8)
  t.equal(await draw(next, 'event_sequence'), 1, 'one that was never used is not set')
})
