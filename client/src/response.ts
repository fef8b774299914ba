/** The result of a call: the data, or with `withResponse()` also the entity tag and the header fields. */
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
