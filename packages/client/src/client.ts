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

type NestedMember = Pick<Member, 'path' | 'actions'>

/** A member of the client, as `resource-api client` writes it. */
interface Member {
  /** The path of the collection in the document. */
  path: string
  /** The collections below a resource of it, by their methods. */
  nested?: Readonly<Record<string, string | NestedMember>>
  /** The paths of the actions of its resources, by their methods. */
  actions?: Readonly<Record<string, string>>
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

type ActionOptions<Paths, P extends string> = OptionsAt<Paths, P, 'post', MatchOptions & KeyOptions>

/** An operation on one resource besides those that all collections have. @throws ConflictError, ValidationError */
type Action<Paths, P extends string, Body = CreateBody<Paths, P>> = (
  id: string,
  ...args: [Body] extends [never]
    ? [body?: Record<string, never>, options?: ActionOptions<Paths, P>]
    : Record<string, never> extends Body
      ? [body?: Body, options?: ActionOptions<Paths, P>]
      : [body: Body, options?: ActionOptions<Paths, P>]
) => ResponsePromise<Created<Paths, P>>

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

type CollectionAt<Paths, P, Unbatched> =
  P extends CollectionPath<Paths> ? Collection<Paths, P, Unbatched> : never

type Actions<Paths, M> = M extends { actions: infer Names }
  ? { [Name in keyof Names]: Action<Paths, Names[Name] & string> }
  : unknown

type NestedCalls<Paths, M, Unbatched> = M extends { path: infer P }
  ? CollectionAt<Paths, P, Unbatched> & Actions<Paths, M>
  : CollectionAt<Paths, M, Unbatched>

type Nested<Paths, Names, Unbatched> = {
  [Name in keyof Names]: (parentId: string) => NestedCalls<Paths, Names[Name], Unbatched>
}

type MemberCalls<Paths, M extends Member, Unbatched> = M['kind'] extends 'links'
  ? AccountLinks<Paths, M['path']>
  : CollectionAt<Paths, M['path'], Unbatched> &
      Actions<Paths, M> &
      (M extends { nested: infer Names } ? Nested<Paths, Names, Unbatched> : unknown) &
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

/**
 * A client of the application whose document has these paths.
 * @typeParam Unbatched the paths of the collections that batches and imports do not write
 */
export type ApiClient<Paths extends object, M extends Members, Unbatched = never> = {
  [Name in keyof M]: MemberCalls<Paths, M[Name], Unbatched>
} & CommonCalls<Paths>

/** Returns a client with these members. Sends no request. */
export function createApiClient<Paths extends object, M extends Members, Unbatched = never>(
  options: ClientOptions,
  members: M,
): ApiClient<Paths, M, Unbatched> {
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

/** Returns the calls of a collection, with those of its actions. */
function openMember(
  transport: Transport,
  { path, actions = {} }: NestedMember,
  parent?: Record<string, string>,
) {
  const calls = Object.entries(actions).map(([name, actionPath]) => [
    name,
    (id: string, body?: object, options?: MatchOptions & KeyOptions) =>
      runAction(transport, { path: actionPath, pathParameters: { ...parent, id }, body }, options),
  ])
  return Object.assign(openCollection(transport, path, parent), Object.fromEntries(calls))
}

function createMember(transport: Transport, anonymous: Transport, member: Member) {
  const { path, nested = {}, kind } = member
  if (kind === 'links') return createLinks(transport, anonymous, path)
  const below = Object.entries(nested).map(([name, each]) => {
    const nestedMember = typeof each === 'string' ? { path: each } : each
    const [, parameter = ''] = /\{(\w+)\}/.exec(nestedMember.path) ?? []
    return [name, (parentId: string) => openMember(transport, nestedMember, { [parameter]: parentId })]
  })
  return Object.assign(openMember(transport, member), {
    ...Object.fromEntries(below),
    ...(kind === 'secrets' && {
      createSecret: (id: string, options?: MatchOptions & KeyOptions) =>
        runAction(transport, { path: `${path}/{id}/secrets`, pathParameters: { id } }, options),
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

function runAction(
  transport: Transport,
  address: { path: string; pathParameters: Record<string, string>; body?: object | undefined },
  { ifMatch, idempotencyKey, ...options }: MatchOptions & KeyOptions = {},
) {
  const headers = { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey }
  return new ResponsePromise(transport.send({ method: 'post', ...address, headers, ...options }))
}
