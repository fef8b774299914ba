/** Chooses the id of a request, which is in its reply and its log lines. */
import type { IncomingHttpHeaders } from 'node:http'
import { newId } from './ids.ts'

const REQUEST_ID = /^[A-Za-z0-9_.-]{8,128}$/

/** Returns the client's own `X-Request-Id` if it is well formed, else a new UUID v7. */
export function getRequestId(request: { headers: IncomingHttpHeaders }): string {
  const own = request.headers['x-request-id']
  return typeof own === 'string' && REQUEST_ID.test(own) ? own : newId()
}
