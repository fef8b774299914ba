/** Sends requests: adds credentials and idempotency keys, repeats what failed, and reads responses. */
import createHttpClient, { type Client as HttpClient } from 'openapi-fetch'
import { ResponseCache } from './cache.ts'
import { Deadline } from './deadline.ts'
import {
  AuthenticationError,
  createForeignResponseError,
  NetworkError,
  NotFoundError,
  toApiError,
} from './errors.ts'
import type { paths } from './openapi.ts'
import { escapeLists, type ResourceId, serializePath } from './path.ts'
import { type ApiResponse, readContent } from './response.ts'
import { LostResponseError, sendWithRetries } from './retry.ts'
import { createMemoryTokenStore, Session, type SignIn, type TokenStore } from './session.ts'
import type { Grant, Token } from './types.ts'

const DEFAULT_DEADLINE_MS = 30_000
/** Of an import: that of the server, and some time for the response. */
const ROWS_DEADLINE_MS = 610_000
/**
 * The server accepts a refresh token again for 10 s, and ends the session if it is used after that. A request whose
 * response was lost must not be repeated later.
 */
const REFRESH_DEADLINE_MS = 8_000

export interface TransportOptions {
  /** The address of the server, without the path of the API: `https://api.example.com`. */
  baseUrl: string
  /** An API key. Without it and without `signIn` and `tokenStore`, requests have no credentials. */
  apiKey?: string | undefined
  /** A user's email address and password. The client signs in before the first request. */
  signIn?: SignIn | undefined
  /** Where the tokens of the session are kept; by default in memory. */
  tokenStore?: TokenStore | undefined
  /** The time limit of a call with its retries; 30,000 ms by default. */
  deadlineMs?: number | undefined
  /** The number of responses to keep, which the server confirms with 304; 0 by default. */
  cacheSize?: number | undefined
  /** Sends the requests; by default the global `fetch`. */
  fetch?: typeof fetch | undefined
}

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which then fails with the reason of the signal. */
  signal?: AbortSignal | undefined
  /** The time limit of this call with its retries. */
  deadlineMs?: number | undefined
}

/** A request to a path of the document. */
export interface Call extends CallOptions {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  pathParameters: Record<string, ResourceId>
  query?: object | undefined
  headers?: Record<string, string | undefined> | undefined
  body?: unknown
  dryRun?: boolean | undefined
}

/** A request for a stream. Its time limit is that of the header fields of the response. */
interface StreamCall extends CallOptions {
  path: string
  pathParameters?: Record<string, ResourceId>
  query: object
  /** With the only media type that is accepted. */
  headers: Record<string, string | undefined> & { Accept: string }
  /** How often the request is repeated at most; 3 by default. */
  maxRetries?: number
}

/** A request whose body is sent once. */
interface RowsCall extends CallOptions {
  path: string
  pathParameters: Record<string, ResourceId>
  query: object
  headers: Record<string, string | undefined>
  body: ReadableStream<Uint8Array>
}

/** A request that can be sent several times. */
interface RepeatableRequest {
  method: string
  url: string
  headers: Headers
  /** A stream can be sent only once. */
  body: string | ReadableStream<Uint8Array> | null
}

/** The types of a path of which only the text is known. */
interface AnyOperation {
  parameters: { path: Record<string, ResourceId>; query?: object }
  requestBody?: { content: { 'application/json': unknown } }
  responses: { 200: { content: { 'application/json': unknown } } }
}
type AnyPaths = Record<string, Record<Call['method'], AnyOperation>>

export class Transport {
  /** The client of openapi-fetch for all paths of the document. */
  readonly http: HttpClient<paths>
  readonly #anyPath: HttpClient<AnyPaths>
  /** The time limit of calls that have none of their own. */
  readonly deadlineMs: number
  readonly #options: TransportOptions
  readonly #session: Session | undefined
  readonly #cache: ResponseCache | undefined

  constructor(options: TransportOptions) {
    const { baseUrl, signIn, tokenStore, cacheSize = 0 } = options
    this.#options = options
    this.deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS
    this.#cache = cacheSize > 0 ? new ResponseCache(cacheSize) : undefined
    if (signIn !== undefined || tokenStore !== undefined) {
      this.#session = new Session(tokenStore ?? createMemoryTokenStore(), signIn, (grant) =>
        this.#requestToken(grant),
      )
    }
    const settings = {
      baseUrl,
      fetch: (request: Request) => this.#fetch(request),
      pathSerializer: serializePath,
      querySerializer: { array: { style: 'form', explode: false } },
    } as const
    this.http = createHttpClient<paths>(settings)
    this.#anyPath = createHttpClient<AnyPaths>(settings)
  }

  /** Sends a request and returns the response. @throws ApiError */
  async send(call: Call): Promise<ApiResponse<unknown>> {
    return toApiResponse(await this.#request(call))
  }

  /** Sends a request with a stream as its body, once. @throws ApiError, NetworkError */
  async sendStream(call: RowsCall): Promise<ApiResponse<unknown>> {
    const { path, pathParameters, query, headers, body, deadlineMs = ROWS_DEADLINE_MS } = call
    const deadline = new Deadline(deadlineMs, call.signal ?? new AbortController().signal)
    try {
      return toApiResponse(
        await this.#anyPath.request('post', path, {
          params: { path: pathParameters, query },
          headers,
          parseAs: 'text',
          fetch: ({ method, url, headers: sent }) => {
            const request = { method, url, headers: sent, body }
            let response: Promise<Response> | undefined
            // A second time, with a new access token, the stream has been sent already.
            return this.#attempt(deadline, (credentials) => {
              response ??= this.#fetchOnce(request, credentials, deadline)
              return response
            })
          },
        }),
      )
    } catch (error) {
      deadline.signal.throwIfAborted()
      if (!(error instanceof LostResponseError)) throw error
      throw new NetworkError('The rows were not imported, or the response was lost', { cause: error.cause })
    } finally {
      deadline.clear()
    }
  }

  #request(call: Call) {
    const { method, path, pathParameters, query = {}, headers = {}, body, dryRun } = call
    return this.#anyPath.request(method, path, {
      params: { path: pathParameters, query: escapeLists({ ...query, dry_run: dryRun }) },
      headers,
      body,
      parseAs: 'text',
      fetch: (request) => this.#fetch(request, call),
    })
  }

  /**
   * Sends a request for a stream.
   * @returns the response, whose body was not read
   * @throws ApiError
   */
  async openStream({ path, pathParameters = {}, query, headers, ...options }: StreamCall): Promise<Response> {
    const { deadlineMs = this.deadlineMs, signal = new AbortController().signal, maxRetries } = options
    const { error, response } = await this.#anyPath.request('get', path, {
      params: { path: pathParameters, query: escapeLists(query ?? {}) },
      headers,
      parseAs: 'stream',
      fetch: async (input) => {
        const request = await toRepeatable(input)
        return sendWithRetries(
          (deadline) =>
            this.#attempt(deadline, (credentials) => this.#fetchStream(request, credentials, deadline)),
          { method: 'GET', deadlineMs, signal, isRepeatable: true, maxRetries },
        )
      },
    })
    if (!response.ok) throw toApiError(response, error)
    if (response.headers.get('Content-Type')?.split(';')[0] !== headers.Accept) {
      await response.body?.cancel()
      const message = `The response has the status ${response.status}, but is not a stream: check baseUrl`
      throw createForeignResponseError(response, 'INVALID_RESPONSE', message)
    }
    return response
  }

  /** Returns a transport that sends no credentials, and so does not sign in. */
  withoutCredentials(): Transport {
    return new Transport({ ...this.#options, apiKey: undefined, signIn: undefined, tokenStore: undefined })
  }

  /** Ends the session on the server, and forgets its tokens and the kept responses. */
  async signOut(options: CallOptions = {}): Promise<void> {
    if (this.#session === undefined) return
    const id = await this.#session.getId()
    try {
      if (id !== undefined) {
        const path = '/api/v1/sessions/{id}'
        // Without the password: if the session has ended, the client would sign in again and leave that session open.
        const transport = new Transport({
          ...this.#options,
          signIn: undefined,
          tokenStore: this.#session.store,
        })
        await transport.send({ method: 'delete', path, pathParameters: { id }, ...options })
      }
    } catch (error) {
      const hasEnded = error instanceof NotFoundError || error instanceof AuthenticationError
      if (!hasEnded) throw error
    } finally {
      await this.#session.clear()
      this.#cache?.clear()
    }
  }

  async #requestToken(grant: Grant): Promise<Token> {
    const deadlineMs =
      grant.grant_type === 'refresh_token' ? Math.min(this.deadlineMs, REFRESH_DEADLINE_MS) : this.deadlineMs
    const { data, error, response } = await this.http.POST('/api/v1/tokens', {
      body: grant,
      parseAs: 'text',
      fetch: async (input) => {
        const request = await toRepeatable(input)
        return sendWithRetries((deadline) => this.#fetchOnce(request, {}, deadline), {
          method: 'POST',
          deadlineMs,
          signal: input.signal,
          // A repeated sign-in starts a second session at worst.
          isRepeatable: true,
        })
      },
    })
    if (!response.ok) throw toApiError(response, error)
    // The document has the type of the data of this response.
    return readContent(response, data).data as Token
  }

  /** Sends a request of openapi-fetch, with retries. */
  async #fetch(
    input: Request,
    { deadlineMs = this.deadlineMs, signal = input.signal }: CallOptions = {},
  ): Promise<Response> {
    const request = await toRepeatable(input)
    // A dry run writes nothing, and its response is not stored.
    const isDryRun = new URL(input.url).searchParams.get('dry_run') === 'true'
    const hasKey = (input.method === 'POST' || input.method === 'PATCH') && !isDryRun
    if (hasKey && !request.headers.has('Idempotency-Key')) {
      request.headers.set('Idempotency-Key', crypto.randomUUID())
    }
    const hasCredentials = this.#options.apiKey !== undefined || this.#session !== undefined
    // The server ignores the key of a request without credentials.
    const isRepeatable = !hasKey || hasCredentials
    return sendWithRetries(
      (deadline) => this.#attempt(deadline, (credentials) => this.#fetchOnce(request, credentials, deadline)),
      { method: input.method, deadlineMs, signal, isRepeatable },
    )
  }

  /** Sends a request once, and again with a new access token if the server rejected the first one. */
  async #attempt(
    deadline: Deadline,
    send: (credentials: Record<string, string>) => Promise<Response>,
  ): Promise<Response> {
    const { apiKey } = this.#options
    const session = this.#session
    if (session === undefined) return send(apiKey === undefined ? {} : { 'X-API-Key': apiKey })
    const token = await deadline.race(session.getAccessToken())
    const response = await send(toBearer(token))
    if (response.status !== 401) return response
    const renewed = await deadline.race(session.getAccessToken(token))
    return send(toBearer(renewed))
  }

  /** Sends a request once and reads the whole response, so that a lost connection is noticed here. */
  async #fetchOnce(
    request: RepeatableRequest,
    credentials: Record<string, string>,
    { signal }: Deadline,
  ): Promise<Response> {
    const { method, url } = request
    const cache = method === 'GET' && !request.headers.has('If-None-Match') ? this.#cache : undefined
    const kept = cache?.get(url)
    const headers = { ...credentials, ...(kept !== undefined && { 'If-None-Match': kept.etag }) }
    const response = await this.#fetchHead(request, headers, signal)
    const text = await readText(url, response)
    if (response.status === 304 && cache && kept) return cache.confirm(url, kept, response.headers)
    if (response.ok) cache?.store(url, response.headers, text)
    return withText(response, text)
  }

  /** Sends a request for a stream once. Reads the whole response if it is an error. */
  async #fetchStream(
    request: RepeatableRequest,
    credentials: Record<string, string>,
    { signal }: Deadline,
  ): Promise<Response> {
    const response = await this.#fetchHead(request, credentials, signal)
    return response.ok ? response : withText(response, await readText(request.url, response))
  }

  /** Sends a request once. The body of the response was not read. */
  async #fetchHead(
    { method, url, headers, body }: RepeatableRequest,
    moreHeaders: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Response> {
    const sent = new Headers(headers)
    for (const [name, value] of Object.entries(moreHeaders)) sent.set(name, value)
    const send = this.#options.fetch ?? fetch
    // Streams as bodies require it; TypeScript's types of browsers lack it.
    const streaming = body instanceof ReadableStream && { duplex: 'half' as const }
    try {
      // fetch would send the API key to the origin of a redirect, and turn a POST into a GET.
      return await send(url, { method, headers: sent, body, signal, redirect: 'manual', ...streaming })
    } catch (error) {
      throw new LostResponseError('The response was lost', { cause: error })
    }
  }
}

/** Returns the response to a request of openapi-fetch. @throws ApiError */
function toApiResponse({
  data,
  error,
  response,
}: {
  data?: string | undefined
  error?: unknown
  response: Response
}): ApiResponse<unknown> {
  if (!response.ok) throw toApiError(response, error)
  const content = response.status === 204 ? { data: undefined, meta: undefined } : readContent(response, data)
  return {
    ...content,
    data: content.data,
    meta: content.meta,
    etag: response.headers.get('ETag'),
    status: response.status,
    requestId: response.headers.get('X-Request-Id'),
    headers: response.headers,
  }
}

/** Reads the body of a response. @throws ApiError if the response is a redirect, LostResponseError */
async function readText(url: string, response: Response): Promise<string> {
  const text = await response.text().catch((cause) => {
    throw new LostResponseError('The response was lost', { cause })
  })
  if (!isRedirect(response)) return text
  const target = response.headers.get('Location') ?? 'another address'
  const message = `${url} redirects to ${target}. The client follows no redirects: correct baseUrl`
  throw createForeignResponseError(response, 'REDIRECT', message)
}

/** Returns a response as it was before its body was read. */
const withText = ({ status, statusText, headers }: Response, text: string) =>
  new Response(text === '' ? null : text, { status, statusText, headers })

const toBearer = (token: string) => ({ Authorization: `Bearer ${token}` })

/** Returns whether a response is a redirect. Browsers hide the status of redirects. */
const isRedirect = ({ type, status }: Response) =>
  type === 'opaqueredirect' || [301, 302, 303, 307, 308].includes(status)

async function toRepeatable(request: Request): Promise<RepeatableRequest> {
  const { method, url, headers } = request
  const text = await request.text()
  return { method, url, headers: new Headers(headers), body: text === '' ? null : text }
}
