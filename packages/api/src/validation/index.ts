/** Bodies, queries and paths against their schemas, and the texts of responses from theirs. */
export { compileBody, compileValue, type Validated } from './body.ts'
export { compileSchema, serializerOptions } from './formats.ts'
export {
  type Fields,
  getDecode,
  getEnvelope,
  type OpenedBody,
  openBody,
  withDecode,
} from './schema-functions.ts'
export { compileParams, compileQuery, createViolation, NUMBERS } from './text.ts'
export {
  checkRequest,
  compileSerializer,
  createSerializerFactory,
  default as validation,
  isCheckingSchemas,
} from './validation.ts'
export { toViolations } from './violations.ts'
