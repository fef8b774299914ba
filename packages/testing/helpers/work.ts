/** The rows of work. */
import type { Connection } from '../../database/src/client/index.ts'
import type { Json } from './app.ts'

/** Returns the row of a job or a consumer with the members of its payload; nothing before it is registered. */
export async function readWork(database: Connection, kind: string): Promise<Json> {
  const [row] = await database.run('select * from work where kind = $1', [kind])
  return { ...row, ...Object(row?.payload) }
}
