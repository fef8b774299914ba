/** Chooses the id of a request, which is in its response and its log lines. */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

const REQUEST_ID = /^[A-Za-z0-9_.-]{8,128}$/

/** Returns the client's own `X-Request-Id` if it is well formed, else a new UUID. Node.js draws random bytes for 128. */
export function getRequestId(request: { headers: IncomingHttpHeaders }): string {
  const own = request.headers['x-request-id']
  return typeof own === 'string' && REQUEST_ID.test(own) ? own : randomUUID()
}
