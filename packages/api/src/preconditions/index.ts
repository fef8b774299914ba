/** Entity tags, and what a request asks of them: 304, 412, 428. */
export { parseHttpDate } from './http-date.ts'
export {
  buildStrongTag,
  buildWeakTag,
  compareTag,
  default as headNotModified,
  entityTagOptions,
  hash,
  hashText,
  isNotModified,
  needsPrimary,
  type PreconditionHeaders,
  readPrecondition,
  sendNotModified,
} from './preconditions.ts'
