/** The face of the package for applications. */

export { defineRules } from './definition/checked-rules.ts'
export type { Locks } from './definition/code.ts'
export { collection } from './definition/definition.ts'
export type {} from './definition/known-relations.ts'
export type {} from './definition/mailer.ts'
export type { CommitHook } from './definition/store.ts'
export type {} from './definition/work.ts'
export type {} from './engine.ts'
export { default as resourceEngine } from './engine.ts'
export type {} from './idempotency/index.ts'
export type {} from './outbox/index.ts'
export { prepareChange } from './outbox/recorder.ts'
export { batches } from './routes/batches.ts'
export type {} from './routes/imports.ts'
export type {} from './routes/operation.ts'
export { operation } from './routes/operation.ts'
export type {} from './routes/own-routes.ts'
export { createOwnRoutes, type OwnRoutes } from './routes/own-routes.ts'
export type {} from './routes/plugin.ts'
export { default as collections, defineResource, type ResourcePlugin } from './routes/plugin.ts'
export { restore } from './routes/restores.ts'
export type {} from './routes/routes.ts'
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
} from './routes/routes.ts'
