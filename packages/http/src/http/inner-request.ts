/** Runs a request within the process on behalf of another one, with the credential of that one. */
import { getLifetime } from '@resource-api/api/requests'
import type { FastifyReply } from 'fastify'
import { type InjectOptions, inject, type Response } from 'light-my-request'

/** The headers that it has from the outer request: the credential, the client's address, and the trace. */
const PASSED_HEADERS = [
  ...['authorization', 'x-api-key', 'user-agent', 'x-forwarded-for', 'x-forwarded-proto'],
  ...['traceparent', 'tracestate'],
]

/**
 * Runs a request with all checks and limits, and ends it when the client of the outer request leaves. The outer one gives
 * back what it has taken from the limits: the inner one takes what it needs itself.
 * @param reply of the outer request
 * @param method that of a route
 */
export async function runInnerRequest(
  { request, raw }: FastifyReply,
  method: string,
  own: { url: string; headers: Record<string, string>; payload?: string },
): Promise<Response> {
  const { actor, headers, id, server, socket } = request
  const passed = Object.entries(headers).filter(([name]) => PASSED_HEADERS.includes(name))
  const lifetime = getLifetime(raw)
  if (actor) await server.limits.uncountUser(request, actor)
  lifetime.answer()
  return inject(
    (inner, innerReply) => {
      // The body is complete: it does not arrive from a client.
      inner.complete = true
      lifetime.untilEnd(() => Object.assign(inner.socket, { destroyed: true }).emit('close'))
      server.server.emit('request', inner, innerReply)
    },
    {
      ...own,
      // Those of routes are methods of HTTP.
      method: method as NonNullable<InjectOptions['method']>,
      remoteAddress: socket.remoteAddress ?? '',
      headers: { ...Object.fromEntries(passed), ...own.headers, 'x-request-id': id },
    },
  )
}
