/** Creates the client: one object with a member for each collection. */
import type { Client as HttpClient } from 'openapi-fetch'
import { type BatchOperation, type BatchResults, buildBatch } from './batch.ts'
import { type Collection, CollectionClient, type KeyOptions, type MatchOptions } from './collection.ts'
import { type EventQuery, EventStream, type StreamOptions } from './event-stream.ts'
import { type ExportOptions, openExport } from './export.ts'
import type { paths } from './openapi.ts'
import {
  createOwnCollections,
  createUserCollections,
  type OwnCollections,
  type UserCollections,
} from './own-collections.ts'
import { type ApiResponse, ResponsePromise } from './response.ts'
import { type ImportCounts, type ImportOptions, sendRows } from './rows.ts'
import type { SignIn, TokenStore } from './session.ts'
import { type CallOptions, Transport, type TransportOptions } from './transport.ts'
import type { Batch, CreateBody, Created, OptionsAt, UpdateBody, Updated } from './types.ts'

type Settings = Omit<TransportOptions, 'apiKey' | 'signIn' | 'tokenStore'>

/** Options of a client: an API key, a user who signs in, stored tokens of a user, or no credentials. */
export type ClientOptions = Settings &
  (
    | { apiKey: string; signIn?: never; tokenStore?: never }
    | { apiKey?: never; signIn?: SignIn; tokenStore?: TokenStore }
  )

/** The deliveries of events to a webhook endpoint. */
export type Deliveries = Collection<'/api/v1/webhook-endpoints/{endpoint_id}/deliveries'>

/** The events of a time that are sent to a webhook endpoint again. */
export type Replays = Collection<'/api/v1/webhook-endpoints/{endpoint_id}/replays'>

type SecretPath = '/api/v1/webhook-endpoints/{id}/secrets'
type SecretOptions = OptionsAt<SecretPath, 'post', MatchOptions & KeyOptions>

/** A webhook endpoint with its secret. */
type CreatedEndpoint = Created<'/api/v1/webhook-endpoints'>

type AccountPath = '/api/v1/password-resets' | '/api/v1/email-verifications'

/** The calls of links in mails. */
export interface AccountLinks<P extends AccountPath> {
  /** Requests a mail with a link. @throws ValidationError, RateLimitError */
  create(body: CreateBody<P>, options?: CallOptions): ResponsePromise<Created<P>>
  /**
   * Uses the link. Sent without credentials, and once: after a lost response, the link may have been used.
   * @param id the one in the link
   * @throws PermissionError if the link cannot be used; ValidationError, and then it still can
   */
  complete(id: string, body: UpdateBody<P>, options?: CallOptions): ResponsePromise<Updated<P>>
}

/** A client of the API. */
export interface Client extends OwnCollections {
  /** Users, with the collections below a user; the id `me` stands for the caller. */
  users: Collection<'/api/v1/users'> & UserCollections
  userProfiles: Collection<'/api/v1/user-profiles'>
  /** Requires a session: sign in. */
  sessions: Collection<'/api/v1/sessions'>
  /** Requires a session: sign in. The key itself is only in the response to `create`. */
  apiKeys: Collection<'/api/v1/api-keys'>
  /** Requires a session: sign in. The secret is only in the responses to `create` and `createSecret`. */
  webhookEndpoints: Collection<'/api/v1/webhook-endpoints'> & {
    /** Returns the deliveries of an endpoint. Creating one sends an event again, or a test. */
    deliveries(endpointId: string): Deliveries
    /** Returns the replays of an endpoint. Creating one sends the events of a time again. */
    replays(endpointId: string): Replays
    /** Creates another secret. For 24 hours, events are signed with the former one too. @throws NotFoundError */
    createSecret(endpointId: string, options?: SecretOptions): ResponsePromise<CreatedEndpoint>
  }
  /** Forgotten passwords, and invitations. Needs no credentials. */
  passwordResets: AccountLinks<'/api/v1/password-resets'>
  /** Proofs that users receive mail at an address. `create` requires a session, `complete` no credentials. */
  emailVerifications: AccountLinks<'/api/v1/email-verifications'>
  /** Changes of resources. */
  events: Collection<'/api/v1/events'> & {
    /**
     * Returns a stream: iterate over it for events as they happen.
     * @param query filters, and the cursor after which the stream starts
     */
    stream(query?: EventQuery, options?: StreamOptions): EventStream
  }
  /**
   * Runs operations in one transaction, all or none, and returns their results: for example
   * `client.batch([client.users.batch.create(body)])`. `operations` of an error has what is wrong with each operation.
   * @throws ValidationError, NotFoundError, ConflictError, PreconditionFailedError; TypeError for a reference to no earlier creation
   */
  batch<const List extends readonly BatchOperation[]>(
    operations: List,
    options?: KeyOptions,
  ): ResponsePromise<BatchResults<List>>
  /**
   * Returns the bytes of an export by the path of its collection, such as `/api/v1/users`. Their stream fails if the
   * export is incomplete. @throws RateLimitError
   */
  exportPath(path: string, query?: object, options?: ExportOptions): Promise<ReadableStream<Uint8Array>>
  /** Imports rows by the path of their collection, such as `/api/v1/users`. @throws ValidationError */
  importPath(
    path: string,
    rows: ReadableStream<Uint8Array>,
    options?: ImportOptions,
  ): ResponsePromise<ImportCounts>
  /** Ends the session on the server, and forgets its tokens. */
  signOut(options?: CallOptions): Promise<void>
  /** The client of openapi-fetch below, with the same credentials and retries, for every path of the document. */
  http: HttpClient<paths>
}

/** Returns a client. Sends no request. */
export function createClient(options: ClientOptions): Client {
  const transport = new Transport(options)
  const anonymous = transport.withoutCredentials()
  const users = new CollectionClient(transport, '/api/v1/users')
  const webhookEndpoints = new CollectionClient(transport, '/api/v1/webhook-endpoints')
  const events = new CollectionClient(transport, '/api/v1/events')
  return {
    ...createOwnCollections(transport),
    users: Object.assign(users, createUserCollections(transport)),
    userProfiles: new CollectionClient(transport, '/api/v1/user-profiles'),
    sessions: new CollectionClient(transport, '/api/v1/sessions'),
    apiKeys: new CollectionClient(transport, '/api/v1/api-keys'),
    webhookEndpoints: Object.assign(webhookEndpoints, {
      deliveries: (endpointId: string): Deliveries => {
        const path = '/api/v1/webhook-endpoints/{endpoint_id}/deliveries'
        return new CollectionClient(transport, path, { endpoint_id: endpointId })
      },
      replays: (endpointId: string): Replays => {
        const path = '/api/v1/webhook-endpoints/{endpoint_id}/replays'
        return new CollectionClient(transport, path, { endpoint_id: endpointId })
      },
      createSecret: (id: string, writeOptions?: SecretOptions) => createSecret(transport, id, writeOptions),
    }),
    passwordResets: createLinks(anonymous, anonymous, '/api/v1/password-resets'),
    emailVerifications: createLinks(transport, anonymous, '/api/v1/email-verifications'),
    events: Object.assign(events, {
      stream: (query: EventQuery = {}, streamOptions: StreamOptions = {}) =>
        new EventStream(transport, query, streamOptions),
    }),
    batch: (operations, batchOptions) => new ResponsePromise(sendBatch(transport, operations, batchOptions)),
    exportPath: (path, query = {}, exportOptions = {}) =>
      openExport(transport, { path, pathParameters: {}, query }, exportOptions),
    importPath: (path, rows, importOptions) =>
      new ResponsePromise(sendRows(transport, { path, pathParameters: {} }, rows, importOptions)),
    signOut: (callOptions) => transport.signOut(callOptions),
    http: transport.http,
  }
}

function createLinks<P extends AccountPath>(
  transport: Transport,
  anonymous: Transport,
  path: P,
): AccountLinks<P> {
  // The document has these types for the responses to these paths.
  return {
    create: (body, options) => {
      const call = { method: 'post', path, pathParameters: {}, body, ...options } as const
      return new ResponsePromise(transport.send(call) as Promise<ApiResponse<Created<P>>>)
    },
    complete: (id, body, options) => {
      const call = {
        method: 'patch',
        path: `${path}/{id}`,
        pathParameters: { id },
        body,
        ...options,
      } as const
      return new ResponsePromise(anonymous.send(call) as Promise<ApiResponse<Updated<P>>>)
    },
  }
}

async function sendBatch<List extends readonly BatchOperation[]>(
  transport: Transport,
  operations: List,
  { idempotencyKey, ...options }: KeyOptions = {},
): Promise<ApiResponse<BatchResults<List>>> {
  const response = await transport.send({
    method: 'post',
    path: '/api/v1/batches',
    pathParameters: {},
    headers: { 'Idempotency-Key': idempotencyKey },
    body: buildBatch(operations),
    ...options,
  })
  // The document has this type for the response to this path.
  const { results } = response.data as Batch
  const data = results.map(({ body }) => body ?? undefined)
  // The operations have the types of their results.
  return { ...response, data: data as BatchResults<List> }
}

function createSecret(
  transport: Transport,
  id: string,
  { ifMatch, idempotencyKey, ...options }: SecretOptions = {},
): ResponsePromise<CreatedEndpoint> {
  const path: SecretPath = '/api/v1/webhook-endpoints/{id}/secrets'
  const response = transport.send({
    method: 'post',
    path,
    pathParameters: { id },
    headers: { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey },
    ...options,
  })
  // The document has this type for the response to this path.
  return new ResponsePromise(response as Promise<ApiResponse<CreatedEndpoint>>)
}
