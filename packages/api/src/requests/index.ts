/** The parts of a request that routes share: its body, its method, its lifetime. */
export {
  default as contentType,
  FRAGMENTED_MESSAGE,
  getRowType,
  hasBody,
  isFragmented,
  parseJson,
  type RowType,
} from './content-type.ts'
export { disconnected, getLatestResponse, getLifetime, RequestLifetime, startLifetime } from './lifetime.ts'
export { default as methodNotAllowed, getOptionsHeaders, isHttpMethod } from './method-not-allowed.ts'
