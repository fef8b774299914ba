/** Calls a tool: sends its arguments to the operation, and makes the result of the response. */
import type { CallToolResult } from '@modelcontextprotocol/server'
import { invalidQuery, logFailure, toApiError, type Violation, writeError } from '@resource-api/api/errors'
import { createViolation, toViolations } from '@resource-api/api/validation'
import { v1 } from '@resource-api/api/versions'
import { isObject } from '@resource-api/database/values'
import { runInnerRequest } from '@resource-api/http/internal'
import type { FastifyReply } from 'fastify'
import { omitNulls } from './omit-nulls.ts'
import type { Tool } from './tools.ts'

type Arguments = Readonly<Record<string, unknown>>

/** The headers that the response to a call has from that of its operation. */
const LIMIT_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']

/**
 * Characters of a result that a read may have. A result stands in its message twice, and is copied by the SDK: 12 MB held the
 * event loop eight times as long as their plain response does.
 */
const MAX_RESULT_LENGTH = 1_048_576
const TOO_LARGE = 'makes a result of more than 1 MiB; ask for fewer resources, or for some of their fields'

/** Items of a list. The query string that an operation reads has no more. */
const MAX_ITEMS = 4_096

/** Lists are sent as `name=a,b`. What is neither a list nor a scalar is unknown to the operation, which refuses it. */
const toText = (value: unknown): string => {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? value.map(toText).join() : JSON.stringify(value)
}

/** Returns a segment of a path. What is not like an id becomes the id of no resource: `..` would be another path. */
const toSegment = (value: unknown): string => (/^[\w-]{1,64}$/.test(toText(value)) ? toText(value) : '-')

/** What the operation cannot see: in the text of a query string, `5` is `"5"`, and `["a,b"]` is `["a", "b"]`. */
function findLosses(name: string, value: unknown): Violation[] {
  const texts = [value].flat().filter((each) => typeof each === 'string')
  if (!texts.every((each) => each.isWellFormed()))
    return [createViolation(name, 'must not contain a lone surrogate', 'INVALID_FORMAT')]
  return Array.isArray(value) && texts.some((each) => each.includes(','))
    ? [createViolation(name, 'must not have a comma in a value: each value is an item', 'INVALID_VALUE')]
    : []
}

/**
 * Checks the arguments that are sent as text: that the operation, which validates the text, reads what was sent. If not, all
 * that is wrong with them is reported.
 * @throws ApiError 400
 */
function checkTexts({ places }: Tool, sent: Arguments) {
  const missing = [...places].filter(([name, place]) => place.in === 'path' && !Object.hasOwn(sent, name))
  const losses = missing.map(([name]) => createViolation(name, 'is required', 'REQUIRED'))
  const others: Violation[] = []
  for (const [name, value] of Object.entries(sent)) {
    const validate = places.get(name)?.validate
    if (!validate) continue
    if (Array.isArray(value) && value.length > MAX_ITEMS) {
      losses.push(createViolation(name, `must not have more than ${MAX_ITEMS} values`, 'TOO_LONG'))
      continue
    }
    losses.push(...findLosses(name, value))
    for (const each of validate(value) ? [] : toViolations(validate.errors ?? [])) {
      const list = each.code === 'INVALID_TYPE' ? losses : others
      list.push({ ...each, field: each.field === '' ? name : `${name}.${each.field}` })
    }
  }
  if (losses.length > 0) throw invalidQuery([...losses, ...others])
}

/** Puts the arguments of a call in their places. @throws ApiError 400 */
function buildRequest(tool: Tool, sent: Arguments) {
  checkTexts(tool, sent)
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
export function refuseCall(error: unknown, { request }: FastifyReply): CallToolResult {
  const failure = toApiError(error)
  logFailure(request, failure)
  return toErrorResult(writeError(v1.error, failure, request.id), failure.headers['Retry-After'])
}

/** Returns the arguments with a text as a list of one where the schema has a list of texts: many models send it so. */
function wrapTexts(sent: Arguments, { properties = {} }: Tool['description']['inputSchema']): Arguments {
  const isTextList = (name: string) => {
    const { items } = Object(Object.hasOwn(properties, name) && properties[name])
    return isObject(items) && items.type === 'string'
  }
  const wrapped = Object.entries(sent).map(([name, value]) =>
    typeof value === 'string' && isTextList(name) ? [name, [value]] : [name, value],
  )
  return Object.fromEntries(wrapped)
}

/** @throws ApiError 400 */
export async function callTool(tool: Tool, given: Arguments, reply: FastifyReply): Promise<CallToolResult> {
  const { inputSchema } = tool.description
  const sent = wrapTexts(omitNulls(given, inputSchema), inputSchema)
  const { headers, payload, statusCode } = await runInnerRequest(reply, tool.method, buildRequest(tool, sent))
  for (const name of LIMIT_HEADERS) if (headers[name] !== undefined) reply.header(name, headers[name])
  if (statusCode >= 400) return toErrorResult(payload, headers['retry-after'])
  if (tool.method === 'GET' && payload.length > MAX_RESULT_LENGTH) {
    throw invalidQuery([
      createViolation(tool.places.has('limit') ? 'limit' : 'fields', TOO_LARGE, 'OUT_OF_RANGE'),
    ])
  }
  if (payload === '') return { content: toTexts('Done') }
  const tag = `${headers.etag ?? 'W/'}`
  const texts = tag.startsWith('W/') ? [payload] : [payload, `ETag: ${tag}`]
  return { structuredContent: JSON.parse(payload), content: toTexts(...texts) }
}
