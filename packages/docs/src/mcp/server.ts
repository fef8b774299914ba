/**
 * Answers the messages of the Model Context Protocol: a server of the SDK for each, since there are no sessions. A message
 * says by its parameters and headers whether it is of revision 2026-07-28, or of 2025-11-25 and earlier ones.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type StandardSchemaV1,
  specTypeSchemas,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { ApiError } from '@resource-api/api/errors'
import { identity, release } from '@resource-api/database'
import { isObject } from '@resource-api/database/values'
import type { FastifyReply } from 'fastify'
import { callTool, refuseCall } from './call.ts'
import type { Tool } from './tools.ts'

const MAX_NAME_LENGTH = 64
const MAX_MESSAGE_LENGTH = 500

const INSTRUCTIONS =
  'Each tool is an operation of a REST API. For the next page of a list, send pagination.cursor as cursor. ' +
  'The text of an error says what is wrong with which argument.'

/** For how long a client may use the tools of its user that it has read: a role and its rules seldom change. */
const CACHE_HINT = { ttlMs: 60_000, cacheScope: 'private' } as const

/** The headers of a request that revision 2026-07-28 compares with the body. */
const PROTOCOL_HEADERS = ['mcp-protocol-version', 'mcp-method', 'mcp-name']

/** The methods whose parameters are checked before the SDK reads them: it would answer wrong ones as an internal error. */
const checkedRequests = new Map<string, StandardSchemaV1>([
  ['initialize', specTypeSchemas.InitializeRequest],
  ['tools/list', specTypeSchemas.ListToolsRequest],
  ['tools/call', specTypeSchemas.CallToolRequest],
])

interface Message {
  reply: FastifyReply
  body: Readonly<Record<string, unknown>>
  /** Those that the caller may use. */
  tools: readonly Tool[]
  /** Why a call is refused; undefined if it is not. */
  refusal: ApiError | undefined
}

/**
 * Returns a message without parameters that are null, which count as absent, without `task`, which a server without tasks
 * ignores (MCP 2025-11-25, Tasks), and without a `_meta` that is no object: where it is required, the SDK says so.
 */
function omitParameters({ params, ...message }: Message['body']) {
  if (params === undefined || params === null) return message
  if (!isObject(params)) return { ...message, params }
  const isKept = ([name, value]: [string, unknown]) =>
    value !== null && name !== 'task' && (name !== '_meta' || isObject(value))
  return { ...message, params: Object.fromEntries(Object.entries(params).filter(isKept)) }
}

/** Returns what is wrong with the parameters of a message. */
async function findMistakes(body: Message['body']): Promise<string | undefined> {
  const checked = await checkedRequests.get(`${body.method}`)?.['~standard'].validate(body)
  const mistakes = checked?.issues?.map(
    ({ path = [], message }) => `${path.map(String).join('.')}: ${message}`,
  )
  return mistakes?.join('; ').slice(0, MAX_MESSAGE_LENGTH)
}

function createServer({ body, reply, tools, refusal }: Message, mistakes: string | undefined): Server {
  const server = new Server(
    { name: identity.name, title: identity.title, version: release },
    {
      capabilities: { tools: {} },
      instructions: INSTRUCTIONS,
      cacheHints: { 'tools/list': CACHE_HINT, 'server/discover': CACHE_HINT },
    },
  )
  server.setRequestHandler('tools/list', () => ({ tools: tools.map(({ description }) => description) }))
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: sent = {} } }) => {
    const tool = tools.find(({ description }) => description.name === name)
    if (refusal) return refuseCall(refusal, reply)
    if (!tool) {
      const message = `Unknown tool: ${name.slice(0, MAX_NAME_LENGTH)}`
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message)
    }
    return callTool(tool, sent, reply).catch((error) => refuseCall(error, reply))
  })
  if (mistakes !== undefined) {
    server.removeRequestHandler(`${body.method}`)
    server.fallbackRequestHandler = () => {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, mistakes)
    }
  }
  return server
}

async function respond(message: Message): Promise<Response> {
  const { body, reply } = message
  // The SDK requires these. All responses are JSON, whatever the client accepts.
  const headers = new Headers({
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  })
  for (const name of PROTOCOL_HEADERS) {
    const value = reply.request.headers[name]
    if (value !== undefined) headers.set(name, `${value}`)
  }
  const request = new Request('http://localhost/mcp', { method: 'POST', headers })
  const mistakes = await findMistakes(body)
  if (!(await isLegacyRequest(request, body))) {
    const handler = createMcpHandler(() => createServer(message, mistakes), { legacy: 'reject' })
    return handler.fetch(request, { parsedBody: body })
  }
  // The SDK's own handler of earlier revisions answers with a stream of events.
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  await createServer(message, mistakes).connect(transport)
  return transport.handleRequest(request, { parsedBody: body })
}

/** Sends the answer to the message of a request. */
export async function answer(message: Message): Promise<FastifyReply> {
  const { reply, body } = message
  const response = await respond({ ...message, body: omitParameters(body) })
  const text = await response.text()
  reply.code(response.status).header('cache-control', 'no-store')
  // JSON, but for the answer to `subscriptions/listen`, which ends at once: tools do not change while a server runs.
  const type = response.headers.get('content-type') ?? 'application/json'
  return text === '' ? reply.send() : reply.type(type).send(text)
}
