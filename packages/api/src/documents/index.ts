/** What a route documents of itself: parameters, responses, headers, conflicts, examples. */
export { buildExample, buildFieldExamples, buildResponseExample } from './examples.ts'
export {
  COMMON_HEADERS,
  DEPRECATION_HEADERS,
  describeCommonHeaders,
  type HeaderName,
  headers,
  pickHeaders,
  VERSION_HEADERS,
} from './headers.ts'
export {
  COMMON_SECURITY,
  type Conflict,
  type Content,
  commonFailures,
  type DocumentedResponse,
  JSON_TYPES,
  NO_QUERY,
  type Operation,
  type Parameter,
  readOperation,
  readResponse,
} from './operation.ts'
export { toPascalCase, toWords, withArticle } from './to-words.ts'
