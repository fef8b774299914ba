/** The face of the package for the other packages: what an application does not need. */
export { type Actor, ANONYMOUS_ACTOR, type CallerRole, formatActor, NO_USER_ID } from './access/actor.ts'
export type { Callers, Passwords } from './access/callers.ts'
export {
  type CredentialRule,
  checkGuard,
  type Guard,
  getCredentialRule,
  passesGuard,
  type RouteAccess,
  registerGuards,
  requireCredential,
  toGuard,
} from './access/guards.ts'
export { default as access } from './access/index.ts'
export {
  type Access,
  allows,
  type Condition,
  formatRule,
  formatWanted,
  getRule,
  getRuleFields,
  getRulePaths,
  hasPaths,
  isPath,
  narrowByRow,
  narrowRule,
  type RoleRules,
  type Rule,
  type Verb,
  verbs,
} from './access/rules.ts'
export { getIncludingScope, getScope, hasScope, listScopes } from './access/scopes.ts'
export { default as exportPlaces, type ExportOptions } from './admission/export-places.ts'
export { disconnected, getLifetime, RequestLifetime } from './admission/request-lifetime.ts'
export { CHALLENGES, createChallenge, refuseCredential, refuseUnverified } from './auth/challenge.ts'
export { parsePrivateKeys } from './config/keys.ts'
export { createConfiguredBox, type SecretBox } from './config/secret-box.ts'
export { deriveKey } from './config/secrets.ts'
export { productSettings, type RunConfig } from './config/settings.ts'
export { parseSmtpUrl } from './config/smtp-url.ts'
export {
  ApiError,
  type ErrorEnvelope,
  invalidQuery,
  logFailure,
  prefixFields,
  prepareFailure,
  rewriteError,
  toApiError,
  writeError,
} from './errors/index.ts'
export { toViolations } from './errors/violations.ts'
export {
  default as contentType,
  FRAGMENTED_MESSAGE,
  getRowType,
  isFragmented,
  parseJson,
  type RowType,
} from './http/content-type.ts'
export { runInnerRequest } from './http/inner-request.ts'
export { addLinks } from './http/links.ts'
export {
  buildStrongTag,
  buildWeakTag,
  hash,
  isNotModified,
  needsPrimary,
  type PreconditionHeaders,
  readPrecondition,
  sendNotModified,
} from './http/preconditions.ts'
export { addVary, securityHeaders } from './http/response-headers.ts'
export { getServerUrl } from './http/server-url.ts'
export { suspendTimeouts } from './http/timeouts.ts'
export type {} from './index.ts'
export { writeCsvExample, writeCsvRecord } from './lib/csv.ts'
export { toEmailAddress } from './lib/email-address.ts'
export { parseHttpDate } from './lib/http-date.ts'
export { type Mailbox, parseMailbox } from './lib/mailbox.ts'
export { toPascalCase, toWords, withArticle } from './lib/to-words.ts'
export { createPinoOptions } from './observability/logging/index.ts'
export type { AddMetric } from './observability/metrics/state.ts'
export {
  type Asset,
  type Compression,
  createAsset,
  createJsonAsset,
  MAX_NEGOTIATION_LENGTH,
  STATIC_CACHE,
  sendAsset,
  serveAsset,
} from './openapi/assets.ts'
export { buildExample, buildFieldExamples, buildResponseExample } from './openapi/examples.ts'
export {
  COMMON_HEADERS,
  commonHeadersGuide,
  DEPRECATION_HEADERS,
  type HeaderName,
  headers,
  pickHeaders,
  VERSION_HEADERS,
} from './openapi/headers.ts'
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
} from './openapi/operation.ts'
export { getClientIp } from './rate-limit/address-windows.ts'
export { BYTES_PER_COST, countReplyBytes, createCost, type PricedList } from './rate-limit/cost.ts'
export { refusedChannel } from './rate-limit/windows.ts'
export { DryRun } from './schemas/envelope.ts'
export {
  type FailureCode,
  type FailureDefinition,
  type FieldCode,
  failureCodes,
  failures,
  fieldCodes,
  fieldFailures,
  MAX_VIOLATIONS,
} from './schemas/error.ts'
export { compileBody, compileValue, type Validated } from './validation/body.ts'
export { compileSchema, serializerOptions } from './validation/formats.ts'
export { checkRequest, compileSerializer, isCheckingSchemas } from './validation/index.ts'
export {
  type Fields,
  getDecode,
  getEnvelope,
  type OpenedBody,
  openBody,
  withDecode,
} from './validation/schema-functions.ts'
export { compileParams, compileQuery, createViolation, NUMBERS } from './validation/text.ts'
export { EXPORT_TYPES, STREAM_TYPES, type StreamType } from './versioning/accept.ts'
export { listServed } from './versioning/index.ts'
export type { FieldMapping, FieldMappings, Page, Representation } from './versioning/representation/types.ts'
export type { ResourceWriter } from './versioning/resource-writer.ts'
export {
  type Entity,
  type Meta,
  type Pagination,
  type ResourceResult,
  type Result,
  type Shape,
  toFieldsSchema,
  toResultSchema,
} from './versioning/result.ts'
