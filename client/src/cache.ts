/** Keeps the responses to reads, which the server confirms with 304 instead of sending them again. */

interface Entry {
  etag: string
  body: string
  contentType: string
}

/** The most recently used responses, by URL. */
export class ResponseCache {
  readonly #entries = new Map<string, Entry>()
  readonly #maxEntries: number

  /** @param maxEntries the number of responses to keep; 0 keeps none */
  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries
  }

  /** Returns the entity tag of the kept response. */
  getTag(url: string): string | undefined {
    return this.#entries.get(url)?.etag
  }

  /** Returns the kept response as the response to the request that was confirmed with 304. */
  confirm(url: string, headers: Headers): Response | undefined {
    const entry = this.#entries.get(url)
    if (entry === undefined) return undefined
    this.#keep(url, entry)
    const merged = new Headers(headers)
    merged.set('Content-Type', entry.contentType)
    // That of the 304, which has no body.
    merged.delete('Content-Length')
    return new Response(entry.body, { headers: merged })
  }

  /** Keeps a response that has an entity tag. */
  store(url: string, headers: Headers, body: string): void {
    const etag = headers.get('ETag')
    const contentType = headers.get('Content-Type')
    if (etag !== null && contentType !== null) this.#keep(url, { etag, body, contentType })
  }

  clear(): void {
    this.#entries.clear()
  }

  /** Moves an entry to the end of the map and removes the first one if there are too many. */
  #keep(url: string, entry: Entry): void {
    this.#entries.delete(url)
    this.#entries.set(url, entry)
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries) return
      this.#entries.delete(oldest)
    }
  }
}
