/** The face of the package for applications. */
export { batches } from './collection/batches.ts'
export { defineRules } from './collection/checked-rules.ts'
export type { Locks } from './collection/code.ts'
export { collection } from './collection/definition.ts'
export type {} from './collection/imports.ts'
export type {} from './collection/index.ts'
export { default as resourceEngine } from './collection/index.ts'
export type {} from './collection/known-relations.ts'
export type {} from './collection/mailer.ts'
export type {} from './collection/operation.ts'
export { operation } from './collection/operation.ts'
export type {} from './collection/own-routes.ts'
export { createOwnRoutes, type OwnRoutes } from './collection/own-routes.ts'
export type {} from './collection/plugin.ts'
export { default as collections, defineResource, type ResourcePlugin } from './collection/plugin.ts'
export { restore } from './collection/restores.ts'
export type {} from './collection/routes.ts'
export {
  action,
  aggregate,
  type ChangeOf,
  type CreateOf,
  create,
  list,
  type RemoveOf,
  read,
  remove,
  replace,
  update,
} from './collection/routes.ts'
export type { CommitHook } from './collection/store.ts'
export type {} from './collection/work.ts'
export type {} from './idempotency/index.ts'
export type {} from './outbox/index.ts'
export { prepareChange } from './outbox/recorder.ts'
