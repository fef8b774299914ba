/** A database whose statements are recorded on their way to it. */
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Database, DatabaseClient, Queryable } from '../../drizzle/client/index.ts'
import type { RecordedTraffic } from './statement-recorder.ts'

/** Records the statements that run on a database. The embedded one has no wire to record. */
export function overhear(database: Database) {
  let statements: string[] = []
  const on = (connection: Queryable): Queryable => ({
    run: (text, params, options) => {
      statements.push(text)
      return connection.run(text, params, options)
    },
  })
  const transaction: DatabaseClient['transaction'] = async (work, limits) => {
    statements.push('begin')
    const result = await database.$client.transaction((tx) => work(on(tx)), limits)
    statements.push('commit')
    return result
  }
  const take = (): RecordedTraffic => {
    const taken = statements
    statements = []
    return { packets: taken.length, statements: taken, roundTrips: taken.length, prepared: 0 }
  }
  return { database: createDatabase({ ...database.$client, ...on(database.$client), transaction }), take }
}
