/** Keeps the responses to reads, which the server confirms with 304 instead of sending them again. */

interface KeptResponse {
  etag: string
  body: string
  contentType: string
}

/** The most recently used responses, by URL. */
export class ResponseCache {
  readonly #entries = new Map<string, KeptResponse>()
  readonly #maxEntries: number

  /** @param maxEntries the number of responses to keep; 0 keeps none */
  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries
  }

  /** Returns the kept response to a URL. */
  get(url: string): KeptResponse | undefined {
    return this.#entries.get(url)
  }

  /** Returns a kept response as the response to a request that the server answered with 304. */
  confirm(url: string, kept: KeptResponse, headers: Headers): Response {
    this.#keep(url, kept)
    const merged = new Headers(headers)
    merged.set('Content-Type', kept.contentType)
    // That of the 304, which has no body.
    merged.delete('Content-Length')
    return new Response(kept.body, { headers: merged })
  }

  /** Keeps a response that has an entity tag and may be stored. */
  store(url: string, headers: Headers, body: string): void {
    const etag = headers.get('ETag')
    const contentType = headers.get('Content-Type')
    if (/\bno-store\b/.test(headers.get('Cache-Control') ?? '')) return
    if (etag !== null && contentType !== null) this.#keep(url, { etag, body, contentType })
  }

  clear(): void {
    this.#entries.clear()
  }

  /** Moves a response to the end of the map and removes the first one if there are too many. */
  #keep(url: string, kept: KeptResponse): void {
    this.#entries.delete(url)
    this.#entries.set(url, kept)
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries) return
      this.#entries.delete(oldest)
    }
  }
}
