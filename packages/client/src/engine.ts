/** What is the same for every application: what `resource-api client` writes imports it. */
export type { BatchOperation, BatchResults, Creation, Operations } from './batch.ts'
export { type AccountLinks, type ApiClient, type ClientOptions, createApiClient } from './client.ts'
export type { Collection, KeyOptions, MatchOptions, WriteOptions } from './collection.ts'
export {
  ApiError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  NetworkError,
  NotFoundError,
  PermissionError,
  PreconditionFailedError,
  PreconditionRequiredError,
  RateLimitError,
  ServerError,
  TimeoutError,
  ValidationError,
} from './errors.ts'
export type { ResourceEvent } from './event.ts'
export type { EventQuery, EventStream, StreamedEvent, StreamOptions } from './event-stream.ts'
export type { ExportOptions } from './export.ts'
export type { List, Page } from './list.ts'
export type { ApiResponse, ResponsePromise } from './response.ts'
export type { ImportCounts, ImportOptions, ImportRow, ImportSource } from './rows.ts'
export type { SignIn, TokenStore, Tokens } from './session.ts'
export type { CallOptions } from './transport.ts'
export type { CollectionPath, ErrorCode, FieldError, FieldName, RelationName, Resource } from './types.ts'
export {
  verifyWebhook,
  type WebhookErrorCode,
  type WebhookOptions,
  type WebhookPayload,
  WebhookVerificationError,
} from './verify-webhook.ts'
