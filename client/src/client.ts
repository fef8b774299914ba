/** Creates the client: one object with a member for each collection. */
import type { Client as HttpClient } from 'openapi-fetch'
import { type Collection, CollectionClient, type KeyOptions, type MatchOptions } from './collection.ts'
import { type EventQuery, EventStream, type StreamOptions } from './event-stream.ts'
import type { paths } from './openapi.ts'
import {
  createOwnCollections,
  createUserCollections,
  type OwnCollections,
  type UserCollections,
} from './own-collections.ts'
import { type ApiResponse, ResponsePromise } from './response.ts'
import type { SignIn, TokenStore } from './session.ts'
import { type CallOptions, Transport, type TransportOptions } from './transport.ts'
import type { Created } from './types.ts'

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

/** A webhook endpoint with its secret. */
type CreatedEndpoint = Created<'/api/v1/webhook-endpoints'>

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
    createSecret(endpointId: string, options?: MatchOptions & KeyOptions): ResponsePromise<CreatedEndpoint>
  }
  /** Changes of resources. */
  events: Collection<'/api/v1/events'> & {
    /**
     * Returns a stream: iterate over it for events as they happen.
     * @param query filters, and the cursor after which the stream starts
     */
    stream(query?: EventQuery, options?: StreamOptions): EventStream
  }
  /** Ends the session on the server, and forgets its tokens. */
  signOut(options?: CallOptions): Promise<void>
  /** The client of openapi-fetch below, with the same credentials and retries, for every path of the document. */
  http: HttpClient<paths>
}

/** Returns a client. Sends no request. */
export function createClient(options: ClientOptions): Client {
  const transport = new Transport(options)
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
      createSecret: (id: string, writeOptions?: MatchOptions & KeyOptions) =>
        createSecret(transport, id, writeOptions),
    }),
    events: Object.assign(events, {
      stream: (query: EventQuery = {}, streamOptions: StreamOptions = {}) =>
        new EventStream(transport, query, streamOptions),
    }),
    signOut: (callOptions) => transport.signOut(callOptions),
    http: transport.http,
  }
}

function createSecret(
  transport: Transport,
  id: string,
  { ifMatch, idempotencyKey, ...options }: MatchOptions & KeyOptions = {},
): ResponsePromise<CreatedEndpoint> {
  const response = transport.send({
    method: 'post',
    path: '/api/v1/webhook-endpoints/{id}/secrets',
    pathParameters: { id },
    headers: { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey },
    ...options,
  })
  // The document has this type for the response to this path.
  return new ResponsePromise(response as Promise<ApiResponse<CreatedEndpoint>>)
}
