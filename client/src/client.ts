/** Creates the client: one object with a member for each collection. */
import type { Client as HttpClient } from 'openapi-fetch'
import { type Collection, CollectionClient } from './collection.ts'
import type { paths } from './openapi.ts'
import type { SignIn, TokenStore } from './session.ts'
import { type CallOptions, Transport, type TransportOptions } from './transport.ts'

type Settings = Omit<TransportOptions, 'apiKey' | 'signIn' | 'tokenStore'>

/** Options of a client: an API key, a user who signs in, stored tokens of a user, or no credentials. */
export type ClientOptions = Settings &
  (
    | { apiKey: string; signIn?: never; tokenStore?: never }
    | { apiKey?: never; signIn?: SignIn; tokenStore?: TokenStore }
  )

/** The posts of a user. */
export type Posts = Collection<'/api/v1/users/{user_id}/posts'>

/** A client of the API. */
export interface Client {
  /** Users; the id `me` stands for the caller. */
  users: Collection<'/api/v1/users'> & {
    /** Returns the posts of a user. */
    posts(userId: string): Posts
  }
  userProfiles: Collection<'/api/v1/user-profiles'>
  products: Collection<'/api/v1/products'>
  orders: Collection<'/api/v1/orders'>
  /** Requires a session: sign in. */
  sessions: Collection<'/api/v1/sessions'>
  /** Requires a session: sign in. The key itself is only in the response to `create`. */
  apiKeys: Collection<'/api/v1/api-keys'>
  /** Ends the session on the server, and forgets its tokens. */
  signOut(options?: CallOptions): Promise<void>
  /** The client of openapi-fetch below, with the same credentials and retries, for every path of the document. */
  http: HttpClient<paths>
}

/** Returns a client. Sends no request. */
export function createClient(options: ClientOptions): Client {
  const transport = new Transport(options)
  const users = new CollectionClient(transport, '/api/v1/users')
  return {
    users: Object.assign(users, {
      posts: (userId: string): Posts =>
        new CollectionClient(transport, '/api/v1/users/{user_id}/posts', { user_id: userId }),
    }),
    userProfiles: new CollectionClient(transport, '/api/v1/user-profiles'),
    products: new CollectionClient(transport, '/api/v1/products'),
    orders: new CollectionClient(transport, '/api/v1/orders'),
    sessions: new CollectionClient(transport, '/api/v1/sessions'),
    apiKeys: new CollectionClient(transport, '/api/v1/api-keys'),
    signOut: (callOptions) => transport.signOut(callOptions),
    http: transport.http,
  }
}
