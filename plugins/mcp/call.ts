/** Runs the operation of a tool as a request of its own, with the credential of the request that calls the tool. */
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type InjectOptions, inject } from 'light-my-request'
import { getLifetime } from '../admission/request-lifetime.ts'
import { invalidQuery, toApiError, writeError } from '../errors/index.ts'
import { createViolation } from '../validation/text.ts'
import { v1 } from '../versioning/representation/v1.ts'
import type { Tool } from './tools.ts'

type Arguments = Readonly<Record<string, unknown>>

/** The headers that the operation has from the call: the credential, the client's address, and the trace. */
const PASSED_HEADERS = [
  ...['authorization', 'x-api-key', 'user-agent', 'x-forwarded-for', 'x-forwarded-proto'],
  ...['traceparent', 'tracestate'],
]

/**
 * Characters of a result that a read may have. A result stands in its message twice, and is copied by the SDK: 12 MB held the
 * event loop eight times as long as their plain response does.
 */
const MAX_RESULT_LENGTH = 1_048_576
const TOO_LARGE = 'makes a result of more than 1 MiB; ask for fewer resources, or for some of their fields'

/** Lists are sent as `name=a,b`. What is no text becomes one that the operation refuses. */
const toText = (value: unknown): string => {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? value.map(toText).join() : JSON.stringify(value)
}

/** Returns a segment of a path. What is not like an id becomes the id of no resource: `..` would be another path. */
const toSegment = (value: unknown): string => (/^[\w-]{1,64}$/.test(toText(value)) ? toText(value) : '-')

/** Puts the arguments of a call in their places. @throws ApiError 400 */
function buildRequest(tool: Tool, sent: Arguments) {
  const missing = [...tool.places.keys()].filter(
    (name) => tool.places.get(name)?.in === 'path' && !(name in sent),
  )
  if (missing.length > 0)
    throw invalidQuery(missing.map((name) => createViolation(name, 'is required', 'REQUIRED')))
  const hasBody = tool.method !== 'GET' && tool.method !== 'DELETE'
  const others = hasBody ? 'body' : 'query'
  let path = tool.url.split('/')
  const query = new URLSearchParams()
  const headers: Record<string, string> = hasBody ? { 'content-type': 'application/json' } : {}
  const body: Record<string, unknown> = {}
  for (const [argument, value] of Object.entries(sent)) {
    // The operation refuses an unknown argument by its name.
    const { in: place, name } = tool.places.get(argument) ?? { in: others, name: argument }
    if (place === 'path') path = path.map((each) => (each === `:${name}` ? toSegment(value) : each))
    else if (place === 'query') query.append(name, toText(value))
    else if (place === 'header') headers[name] = toText(value)
    else body[name] = value
  }
  return { url: `${path.join('/')}?${query}`, headers, ...(hasBody && { payload: JSON.stringify(body) }) }
}

const toTexts = (...texts: string[]) => texts.map((text) => ({ type: 'text' as const, text }))

function toErrorResult(body: string, retryAfter: unknown): CallToolResult {
  const advice = retryAfter === undefined ? [] : [`Call the tool again after ${retryAfter} seconds.`]
  return { isError: true, content: toTexts(body, ...advice) }
}

/** Returns the result of a call without a response of its operation. */
export function refuseCall(error: unknown, request: FastifyRequest): CallToolResult {
  const failure = toApiError(error)
  if (failure.status >= 500) request.log.error({ err: error }, failure.message)
  return toErrorResult(writeError(v1.error, failure, request.id), failure.headers['Retry-After'])
}

/** @throws ApiError 400 */
export async function callTool(
  tool: Tool,
  sent: Arguments,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<CallToolResult> {
  const { actor, headers, id, raw, server } = request
  const own = buildRequest(tool, sent)
  const passed = Object.entries(headers).filter(([name]) => PASSED_HEADERS.includes(name))
  const lifetime = getLifetime(reply.raw)
  // The operation takes what it needs itself: its count in the limits, its slots of admission and of concurrency.
  if (actor) await server.limits.uncountUser(request, actor)
  lifetime.answer()
  const response = await inject(
    (inner, innerReply) => {
      // The body is complete: it does not arrive from a client.
      inner.complete = true
      lifetime.untilEnd(() => Object.assign(inner.socket, { destroyed: true }).emit('close'))
      server.server.emit('request', inner, innerReply)
    },
    {
      ...own,
      // Those of routes are methods of HTTP.
      method: tool.method as NonNullable<InjectOptions['method']>,
      remoteAddress: raw.socket.remoteAddress ?? '',
      headers: { ...Object.fromEntries(passed), ...own.headers, 'x-request-id': id },
    },
  )
  for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'])
    if (response.headers[name] !== undefined) reply.header(name, response.headers[name])
  const { headers: received, payload, statusCode } = response
  if (statusCode >= 400) return toErrorResult(payload, received['retry-after'])
  if (tool.method === 'GET' && payload.length > MAX_RESULT_LENGTH) {
    throw invalidQuery([
      createViolation(tool.places.has('limit') ? 'limit' : 'fields', TOO_LARGE, 'OUT_OF_RANGE'),
    ])
  }
  if (payload === '') return { content: toTexts('Done') }
  const tag = `${received.etag ?? 'W/'}`
  const texts = tag.startsWith('W/') ? [payload] : [payload, `ETag: ${tag}`]
  return { structuredContent: JSON.parse(payload), content: toTexts(...texts) }
}
