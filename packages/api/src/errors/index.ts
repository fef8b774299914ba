/** Errors: their codes and texts, how code throws them, and what becomes of them in a response. */
export {
  type FailureCode,
  type FailureDefinition,
  type FieldCode,
  failureCodes,
  failures,
  fieldCodes,
  fieldFailures,
  MAX_VIOLATIONS,
  type Violation,
} from './codes.ts'
export {
  ApiError,
  apiError,
  default as errors,
  type ErrorEnvelope,
  invalidBody,
  invalidQuery,
  logFailure,
  prefixFields,
  prepareFailure,
  rewriteError,
  sendError,
  toApiError,
  writeError,
} from './errors.ts'
