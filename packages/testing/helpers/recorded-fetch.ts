/** A `fetch` for the client package that records what it sends and receives. */
export interface SentRequest {
  method: string
  /** The path and the query. */
  path: string
  headers: Headers
  /** The status of the response; 0 if it was lost. */
  status: number
}

export interface RecordedFetch {
  fetch: typeof fetch
  sent: SentRequest[]
  /** Returns method, path and status of each request. */
  summarize(): string[]
}

/**
 * Creates a `fetch`.
 * @param isLost decides whether the response of a request, which the server has processed, is lost
 */
export function createRecordedFetch(
  isLost: (request: SentRequest, index: number) => boolean = () => false,
): RecordedFetch {
  const sent: SentRequest[] = []
  return {
    sent,
    summarize: () => sent.map(({ method, path, status }) => `${method} ${path} ${status}`),
    fetch: async (input, init) => {
      const { pathname, search } = new URL(String(input))
      const request: SentRequest = {
        method: init?.method ?? 'GET',
        path: `${pathname}${search}`.replace('/api/v1', ''),
        headers: new Headers(init?.headers),
        status: 0,
      }
      const index = sent.push(request) - 1
      const response = await fetch(input, init)
      if (isLost(request, index)) {
        await response.text()
        throw new TypeError('fetch failed')
      }
      request.status = response.status
      return response
    },
  }
}
