/** The face of the package for the other packages: what an application does not need. */
export {
  type Cells,
  describeOperations,
  describeRouteAccess,
  SIGN_UP,
} from './collection/access-cells.ts'
export { batchesTag } from './collection/batches.ts'
export { findRepeatedParameters } from './collection/check/lists.ts'
export { isReservedName, isResourceName } from './collection/check/names.ts'
export { avoidScans, findRepeatedKey, findScannedTables } from './collection/check/views.ts'
export type { Change } from './collection/code.ts'
export { createCursors, invalidCursor, type Position } from './collection/cursors.ts'
export { type Collection, RESTORES, type ResourceDefinition } from './collection/definition.ts'
export { requestsDryRun } from './collection/dry-run.ts'
export { isWritten } from './collection/fields.ts'
export type { Handler, ListHandler, ReadHandler } from './collection/handlers.ts'
export { addInverses } from './collection/inverses.ts'
export type { Mailer, NewMail } from './collection/mailer.ts'
export { buildResourceShape, describeAccess, describeRule } from './collection/openapi/operations.ts'
export type { OperationContext } from './collection/operations/context.ts'
export { createListOrExportHandler } from './collection/operations/export.ts'
export { createStoreFinder } from './collection/operations/open-store.ts'
export { createReadHandler } from './collection/operations/read.ts'
export type { RowReader } from './collection/operations/read-page.ts'
export type { WriteInput, WriteOperation } from './collection/operations/write-operation.ts'
export { listRouteScopes } from './collection/own-routes.ts'
export type { Bound, ListFilters, ListQuery } from './collection/query.ts'
export { MAX_PAGE_BYTES } from './collection/reply-size.ts'
export { createDefaults } from './collection/request/body.ts'
export { buildBody, toBodySchema } from './collection/request/body-schema.ts'
export { toInstant } from './collection/request/bounds.ts'
export { getListIdentity, getQueryIdentity } from './collection/request/list-query.ts'
export { buildListParameters, listConditionParameters } from './collection/request/parameters.ts'
export { createNotFound, readAddress } from './collection/request/resource-address.ts'
export type { Resource, Stores } from './collection/resource.ts'
export { getTimestamps, toTimestamp } from './collection/response/response-builder.ts'
export { toRoleOperation } from './collection/role-operation.ts'
export { getViewTag } from './collection/role-schemas.ts'
export {
  buildPathConditions,
  findCallerKeys,
  listRuleColumns,
  type RuleScope,
} from './collection/sql/rule-paths.ts'
export { getUniqueColumns } from './collection/sql/table-facts.ts'
export { createStores } from './collection/sql/write.ts'
export { getText, type Row, type RowStore, type Store } from './collection/store.ts'
export { toVersionView } from './collection/version-fields.ts'
export {
  createEnqueue,
  type Enqueue,
  toWorkKind,
  type WorkName,
  type WorkPayloads,
} from './collection/work.ts'
export type {} from './index.ts'
export { SYSTEM_ORIGIN } from './outbox/origin.ts'
export {
  changeRows,
  createRecorders,
  findOwnerColumn,
  isRecorded,
  listRules,
  type Recorders,
} from './outbox/recorder.ts'
export { Batch } from './schemas/batches.ts'
