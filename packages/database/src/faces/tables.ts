/** The tables of the packages, all declared ones, and their columns. */
export { accountLinks, mailQuotas } from '../account-tables.ts'
export { apiKeys, sessions, signInAddresses, userIdentities } from '../credential-tables.ts'
export {
  eventFeed,
  eventSequence,
  events,
  outbox,
  webhookEndpoints,
  webhookReplays,
} from '../event-tables.ts'
export { getColumnType, hashForLock, toNames } from '../expressions.ts'
export { idempotencyKeys } from '../idempotency-tables.ts'
export { listTableNames } from '../schema-check.ts'
export { isPackageTable, listDeclarations } from '../table-list.ts'
export { getViewTable, type View } from '../views.ts'
export { DELIVERY, isCounted, work, workGroup } from '../work-tables.ts'
