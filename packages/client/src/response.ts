/** The result of a call: the data, or with `withResponse()` also the entity tag and the header fields. */
import { createForeignResponseError } from './errors.ts'
import type { Meta } from './types.ts'

/** A response of the server. */
export interface ApiResponse<T> {
  data: T
  /** The entity tag, for `ifMatch`; null if the response has none. */
  etag: string | null
  /** For example which included lists are incomplete; undefined if the response has no body. */
  meta: Meta | undefined
  status: number
  /** The value of `X-Request-Id`, for the logs of the server. */
  requestId: string | null
  headers: Headers
}

/** A promise of the data of a response. */
export class ResponsePromise<T> extends Promise<T> {
  readonly #response: Promise<ApiResponse<T>>

  /** The promises of `then()`, `catch()` and `finally()` are ordinary ones. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  constructor(response: Promise<ApiResponse<T>>) {
    super((resolve) => resolve(response.then(({ data }) => data)))
    this.#response = response
  }

  /** Returns the whole response: the data with the entity tag, the metadata and the header fields. */
  withResponse(): Promise<ApiResponse<T>> {
    // The caller handles an error of the response, which is not an unhandled rejection of the data too.
    this.catch(() => undefined)
    return this.#response
  }
}

/** The members that the body of every success has in the document, except that of a 204. */
interface Content {
  data: unknown
  meta?: Meta
}

const isContent = (value: unknown): value is Content =>
  typeof value === 'object' && value !== null && 'data' in value

/** Parses the body of a success. @throws ApiError if it is not from the API */
export function readContent(response: Response, text = ''): Content {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    // Not JSON, for example a sign-in page of a proxy.
  }
  if (isContent(content)) return content
  const message = `The response has the status ${response.status}, but its body is not from the API: check baseUrl`
  throw createForeignResponseError(response, 'INVALID_RESPONSE', message)
}
