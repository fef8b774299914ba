/** Creates a client of an application: one object with a member for each collection. */
import type { Client as HttpClient } from 'openapi-fetch'
import { type BatchOperation, type BatchResults, buildBatch } from './batch.ts'
import { type Collection, CollectionClient, type KeyOptions, type MatchOptions } from './collection.ts'
import { type EventQuery, EventStream, type StreamOptions } from './event-stream.ts'
import { type ExportOptions, openExport } from './export.ts'
import type { paths } from './openapi.ts'
import { type ApiResponse, ResponsePromise } from './response.ts'
import { type ImportCounts, type ImportOptions, sendRows } from './rows.ts'
import type { SignIn, TokenStore } from './session.ts'
import { type CallOptions, Transport, type TransportOptions } from './transport.ts'
import type {
  Batch,
  CollectionPath,
  CreateBody,
  Created,
  OptionsAt,
  ResponseData,
  UpdateBody,
  Updated,
} from './types.ts'

type Settings = Omit<TransportOptions, 'apiKey' | 'signIn' | 'tokenStore'>

/** Options of a client: an API key, a user who signs in, stored tokens of a user, or no credentials. */
export type ClientOptions = Settings &
  (
    | { apiKey: string; signIn?: never; tokenStore?: never }
    | { apiKey?: never; signIn?: SignIn; tokenStore?: TokenStore }
  )

/** A member of the client, as `resource-api client` writes it. */
interface Member {
  /** The path of the collection in the document. */
  path: string
  /** The collections below a resource of it, by their methods. */
  nested?: Readonly<Record<string, string>>
  /** What it has besides the calls of a collection: a stream of events, secrets; or the calls of links in mails alone. */
  kind?: 'events' | 'secrets' | 'links'
}

type Members = Readonly<Record<string, Member>>

/** The calls of links in mails. */
export interface AccountLinks<Paths, P extends string> {
  /** Requests a mail with a link. @throws ValidationError, RateLimitError */
  create(body: CreateBody<Paths, P>, options?: CallOptions): ResponsePromise<Created<Paths, P>>
  /**
   * Uses the link. Sent without credentials, and once: after a lost response, the link may have been used.
   * @param id the one in the link
   * @throws PermissionError if the link cannot be used; ValidationError, and then it still can
   */
  complete(id: string, body: UpdateBody<Paths, P>, options?: CallOptions): ResponsePromise<Updated<Paths, P>>
}

type SecretPath<P extends string> = `${P}/{id}/secrets`

interface Secrets<Paths, P extends string> {
  /** Creates another secret. For 24 hours, events are signed with the former one too. @throws NotFoundError */
  createSecret(
    endpointId: string,
    options?: OptionsAt<Paths, SecretPath<P>, 'post', MatchOptions & KeyOptions>,
  ): ResponsePromise<ResponseData<Paths, SecretPath<P>, 'post', 201>>
}

interface Stream {
  /**
   * Returns a stream: iterate over it for events as they happen.
   * @param query filters, and the cursor after which the stream starts
   */
  stream(query?: EventQuery, options?: StreamOptions): EventStream
}

type CollectionAt<Paths, P> = P extends CollectionPath<Paths> ? Collection<Paths, P> : never

type Nested<Paths, Names> = { [Name in keyof Names]: (parentId: string) => CollectionAt<Paths, Names[Name]> }

type MemberCalls<Paths, M extends Member> = M['kind'] extends 'links'
  ? AccountLinks<Paths, M['path']>
  : CollectionAt<Paths, M['path']> &
      (M extends { nested: infer Names } ? Nested<Paths, Names> : unknown) &
      (M extends { kind: 'secrets' } ? Secrets<Paths, M['path']> : unknown) &
      (M extends { kind: 'events' } ? Stream : unknown)

/** The calls of a client that belong to no collection. */
interface CommonCalls<Paths extends object> {
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
  http: HttpClient<Paths>
}

/** A client of the application whose document has these paths. */
export type ApiClient<Paths extends object, M extends Members> = {
  [Name in keyof M]: MemberCalls<Paths, M[Name]>
} & CommonCalls<Paths>

/** Returns a client with these members. Sends no request. */
export function createApiClient<Paths extends object, M extends Members>(
  options: ClientOptions,
  members: M,
): ApiClient<Paths, M> {
  const transport = new Transport(options)
  const anonymous = transport.withoutCredentials()
  const collections = Object.entries(members).map(([name, member]) => [
    name,
    createMember(transport, anonymous, member),
  ])
  const common: CommonCalls<Paths> = {
    batch: (operations, batchOptions) => new ResponsePromise(sendBatch(transport, operations, batchOptions)),
    exportPath: (path, query = {}, exportOptions = {}) =>
      openExport(transport, { path, pathParameters: {}, query }, exportOptions),
    importPath: (path, rows, importOptions) =>
      new ResponsePromise(sendRows(transport, { path, pathParameters: {} }, rows, importOptions)),
    signOut: (callOptions) => transport.signOut(callOptions),
    // The same object for every document: openapi-fetch has its paths in the types only.
    http: transport.http as HttpClient<object> as HttpClient<Paths>,
  }
  // `createMember` returns what `MemberCalls` names; the compiler does not follow a loop over the members.
  return { ...Object.fromEntries(collections), ...common }
}

/** Returns the calls of any collection. Which of them the document has is in the types only, as are its paths. */
const openCollection = (transport: Transport, path: string, parent?: Record<string, string>) =>
  new CollectionClient<paths, CollectionPath<paths>>(transport, path as CollectionPath<paths>, parent)

function createMember(transport: Transport, anonymous: Transport, { path, nested = {}, kind }: Member) {
  if (kind === 'links') return createLinks(transport, anonymous, path)
  const collection = openCollection(transport, path)
  const below = Object.entries(nested).map(([name, nestedPath]) => {
    const [, parameter = ''] = /\{(\w+)\}/.exec(nestedPath) ?? []
    return [name, (parentId: string) => openCollection(transport, nestedPath, { [parameter]: parentId })]
  })
  return Object.assign(collection, {
    ...Object.fromEntries(below),
    ...(kind === 'secrets' && {
      createSecret: (id: string, options?: MatchOptions & KeyOptions) =>
        createSecret(transport, `${path}/{id}/secrets`, id, options),
    }),
    ...(kind === 'events' && {
      stream: (query: EventQuery = {}, options: StreamOptions = {}) =>
        new EventStream(transport, query, { path, ...options }),
    }),
  })
}

function createLinks(transport: Transport, anonymous: Transport, path: string) {
  // A user who has forgotten the password has no credentials. A session proves the address of its user.
  const creator = path === '/api/v1/email-verifications' ? transport : anonymous
  return {
    create: (body: unknown, options?: CallOptions) =>
      new ResponsePromise(creator.send({ method: 'post', path, pathParameters: {}, body, ...options })),
    complete: (id: string, body: unknown, options?: CallOptions) =>
      new ResponsePromise(
        anonymous.send({ method: 'patch', path: `${path}/{id}`, pathParameters: { id }, body, ...options }),
      ),
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
  path: string,
  id: string,
  { ifMatch, idempotencyKey, ...options }: MatchOptions & KeyOptions = {},
) {
  return new ResponsePromise(
    transport.send({
      method: 'post',
      path,
      pathParameters: { id },
      headers: { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey },
      ...options,
    }),
  )
}
