/** The face of the package for the other packages: what an application does not need. */

export { findRepeatedParameters } from './check/lists.ts'
export { isReservedName, isResourceName } from './check/names.ts'
export { avoidScans, findRepeatedKey, findScannedTables } from './check/views.ts'
export {
  type Cells,
  describeOperations,
  describeRouteAccess,
  SIGN_UP,
} from './definition/access-cells.ts'
export type { Change } from './definition/code.ts'
export { type Collection, RESTORES, type ResourceDefinition } from './definition/definition.ts'
export { isWritten } from './definition/fields.ts'
export type { Handler, ListHandler, ReadHandler } from './definition/handlers.ts'
export { addInverses } from './definition/inverses.ts'
export type { Mailer, NewMail } from './definition/mailer.ts'
export type { Bound, ListFilters, ListQuery } from './definition/query.ts'
export type { Resource, Stores } from './definition/resource.ts'
export { getViewTag } from './definition/role-schemas.ts'
export { getText, type Row, type RowStore, type Store } from './definition/store.ts'
export {
  createEnqueue,
  type Enqueue,
  toWorkKind,
  type WorkName,
  type WorkPayloads,
} from './definition/work.ts'
export { requestsDryRun } from './dry-run.ts'
export type {} from './index.ts'
export { buildResourceShape, describeAccess, describeRule } from './openapi/operations.ts'
export type { OperationContext } from './operations/context.ts'
export { createListOrExportHandler } from './operations/export.ts'
export { createStoreFinder } from './operations/open-store.ts'
export { createReadHandler } from './operations/read.ts'
export type { RowReader } from './operations/read-page.ts'
export type { WriteInput, WriteOperation } from './operations/write-operation.ts'
export { SYSTEM_ORIGIN } from './outbox/origin.ts'
export {
  changeRows,
  createRecorders,
  findOwnerColumn,
  isRecorded,
  listRules,
  type Recorders,
} from './outbox/recorder.ts'
export { createDefaults } from './request/body.ts'
export { buildBody, toBodySchema } from './request/body-schema.ts'
export { toInstant } from './request/bounds.ts'
export { getListIdentity, getQueryIdentity } from './request/list-query.ts'
export { buildListParameters, listConditionParameters } from './request/parameters.ts'
export { createNotFound, readAddress } from './request/resource-address.ts'
export { toVersionView } from './request/version-fields.ts'
export { getTimestamps, toTimestamp } from './response/response-builder.ts'
export { batchesTag } from './routes/batches.ts'
export { listRouteScopes } from './routes/own-routes.ts'
export { toRoleOperation } from './routes/role-operation.ts'
export { Batch } from './schemas/batches.ts'
export { createCursors, invalidCursor, type Position } from './sql/cursors.ts'
export { MAX_PAGE_BYTES } from './sql/reply-size.ts'
export {
  buildPathConditions,
  findCallerKeys,
  listRuleColumns,
  type RuleScope,
} from './sql/rule-paths.ts'
export { getUniqueColumns } from './sql/table-facts.ts'
export { createStores } from './sql/write.ts'
