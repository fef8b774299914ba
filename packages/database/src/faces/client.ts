/** Opened databases: what runs statements, prepared ones, transactions, copies, servers. */
export { createDatabase, isTransaction } from '../client/database.ts'
export type { DatabaseServer } from '../client/embedded/socket-server.ts'
export { connectToServer, openCopy, serveDatabase, shortenLog } from '../client/index.ts'
export { type PreparedStatement, StatementsByShape, type Values } from '../client/prepare.ts'
export { parseAddress } from '../client/server/address.ts'
export { runTransactionBody } from '../client/transaction.ts'
export type {
  DatabaseClient,
  Param,
  Queryable,
  Row,
  Transaction,
  TransactionOptions,
} from '../client/types.ts'
export { wrapDatabase } from '../client/wrap.ts'
