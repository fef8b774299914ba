/** The face of the package for the other packages: what an application does not need. */

export { accountLinks, mailQuotas } from './account-tables.ts'
export type { Role } from './application.ts'
export { createDatabase, isTransaction } from './client/database.ts'
export { FolderInUse, NoServer } from './client/embedded/folder-lock.ts'
export type { DatabaseServer } from './client/embedded/socket-server.ts'
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
} from './client/errors.ts'
export { connectToServer, openCopy, openDatabase, serveDatabase, shortenLog } from './client/index.ts'
export { type PreparedStatement, StatementsByShape, type Values } from './client/prepare.ts'
export { DEFAULT_SCHEMA, getSearchPath } from './client/schema.ts'
export { parseAddress } from './client/server/address.ts'
export { runTransactionBody } from './client/transaction.ts'
export type {
  DatabaseClient,
  Param,
  Queryable,
  Row,
  Transaction,
  TransactionOptions,
} from './client/types.ts'
export { wrapDatabase } from './client/wrap.ts'
export { apiKeys, sessions, signInAddresses, userIdentities } from './credential-tables.ts'
export {
  eventFeed,
  eventSequence,
  events,
  outbox,
  webhookEndpoints,
  webhookReplays,
} from './event-tables.ts'
export { getColumnType, hashForLock, toNames } from './expressions.ts'
export { idempotencyKeys } from './idempotency-tables.ts'
export { getChannelName } from './identity.ts'
export type {} from './index.ts'
export { BackgroundTask } from './lib/background-task.ts'
export { createFolder } from './lib/create-folder.ts'
export { type Duration, toMilliseconds } from './lib/duration.ts'
export { isUuid, NIL_UUID } from './lib/ids.ts'
export { isObject } from './lib/is-object.ts'
export { createKeyedQueue } from './lib/keyed-queue.ts'
export { loadOptional } from './lib/load-optional.ts'
export { mapInTurns, SHORT_TURN_MS } from './lib/map-in-turns.ts'
export type { MaybePromise } from './lib/maybe-promise.ts'
export { findPackageFolder } from './lib/package-folder.ts'
export { release } from './lib/release.ts'
export { type OnQueue, Semaphore } from './lib/semaphore.ts'
export { parseServiceUrl, parseUrl, UrlError } from './lib/service-url.ts'
export { syncFolder } from './lib/sync-folder.ts'
export { countPendingMigrations, ensureMigrated, migrate } from './migrate.ts'
export { loadMigrations } from './migration-files.ts'
export { getRecordTable, listRecordTables, RECORD_PREFIX } from './migration-records.ts'
export { isRole, roles, staff, toStaff } from './roles.ts'
export { ensureSchema, inspectSchema, listTableNames, SCHEMA_ADVICE } from './schema-check.ts'
export { isPackageTable, listDeclarations } from './table-list.ts'
export { getViewTable, type View } from './views.ts'
export { DELIVERY, isCounted, work, workGroup } from './work-tables.ts'
