/** What handlers return, whatever the version: resources and pages without an envelope. */
export { DryRun } from './envelope.ts'
export {
  type Entity,
  type Meta,
  type Pagination,
  type ResourceResult,
  type Result,
  type Shape,
  toFieldsSchema,
  toResultSchema,
} from './result.ts'
