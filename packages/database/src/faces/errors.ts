/** What a statement or a database may fail with. */
export { FolderInUse, NoServer } from '../client/embedded/folder-lock.ts'
export {
  DatabaseUnavailable,
  getContention,
  isConnectionLoss,
  isLockTimeout,
  isStatementTimeout,
  SqlError,
  StaleReadError,
  TransactionTimeout,
  TransactionYielded,
} from '../client/errors.ts'
export { isRaised } from '../lib/raised.ts'
export { serializeError } from '../lib/serialize-error.ts'
