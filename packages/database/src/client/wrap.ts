/** Runs code around the statements and transactions of a database: those of the primary, of replicas and of transactions. */
import { createConnection, createDatabase } from './database.ts'
import type { Database, Queryable, Row } from './types.ts'

export interface Around {
  statement(text: string, run: () => Promise<Row[]>): Promise<Row[]>
  transaction?<T>(run: () => Promise<T>): Promise<T>
}

/** Returns a database whose statements and transactions run within the functions. */
export function wrapDatabase({ $client }: Database, around: Around): Database {
  const { statement, transaction = (run) => run() } = around
  const wrap = (connection: Queryable): Queryable => ({
    run: (text, params, options) => statement(text, () => connection.run(text, params, options)),
  })
  const { replicas } = $client
  return createDatabase({
    ...$client,
    ...wrap($client),
    ...(replicas && {
      replicas: {
        ...replicas,
        getReader(userId: string) {
          const replica = replicas.getReader(userId)
          return replica && createConnection(wrap(replica))
        },
      },
    }),
    transaction: (work, limits) =>
      transaction(() => $client.transaction((tx) => work({ ...tx, ...wrap(tx) }), limits)),
  })
}
