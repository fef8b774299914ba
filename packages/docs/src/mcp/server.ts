/** Answers the messages of the Model Context Protocol: a server of the SDK for each, since there are no sessions. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import {
  CallToolRequestSchema,
  ErrorCode,
  InitializeRequestSchema,
  ListToolsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { identity } from '@resource-api/database'
import { isObject, release } from '@resource-api/database/internal'
import type { ApiError } from '@resource-api/http/internal'
import type { FastifyReply } from 'fastify'
import { callTool, refuseCall } from './call.ts'
import type { Tool } from './tools.ts'

const MAX_NAME_LENGTH = 64
const MAX_MESSAGE_LENGTH = 500

const INSTRUCTIONS =
  'Each tool is an operation of a REST API. For the next page of a list, send pagination.cursor as cursor. ' +
  'The text of an error says what is wrong with which argument.'

// The SDK would create one for each server, with an Ajv of its own.
const jsonSchemaValidator = new AjvJsonSchemaValidator()

/** The methods whose parameters are checked before the SDK reads them: it would answer wrong ones as an internal error. */
const checkedRequests = [InitializeRequestSchema, ListToolsRequestSchema, CallToolRequestSchema]

interface Message {
  reply: FastifyReply
  body: Readonly<Record<string, unknown>>
  /** Those that the caller may use. */
  tools: readonly Tool[]
  /** Why a call is refused; undefined if it is not. */
  refusal: ApiError | undefined
}

/**
 * Returns a message without parameters that are null, which count as absent, and without `task`: a server without tasks
 * ignores it (MCP 2025-11-25, Tasks).
 */
function omitParameters({ params, ...message }: Message['body']) {
  if (params === undefined || params === null) return message
  if (!isObject(params)) return { ...message, params }
  const kept = Object.entries(params).filter(([name, value]) => value !== null && name !== 'task')
  return { ...message, params: Object.fromEntries(kept) }
}

/** Returns what is wrong with the parameters of a message. */
function findMistakes(message: Message['body']): string | undefined {
  const schema = checkedRequests.find(({ shape }) => shape.method.value === message.method)
  const mistakes = schema
    ?.safeParse(message)
    .error?.issues.map(({ path, message: text }) => `${path.join('.')}: ${text}`)
  return mistakes?.join('; ').slice(0, MAX_MESSAGE_LENGTH)
}

/** Sends the answer to the message of a request. */
export async function answer({ reply, body, tools, refusal }: Message): Promise<FastifyReply> {
  const message = omitParameters(body)
  const mistakes = findMistakes(message)
  const server = new Server(
    { name: identity.name, title: identity.title, version: release },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS, jsonSchemaValidator },
  )
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ description }) => description),
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: sent = {} } }) => {
    const tool = tools.find(({ description }) => description.name === name)
    if (refusal) return refuseCall(refusal, reply)
    if (!tool) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, MAX_NAME_LENGTH)}`)
    return callTool(tool, sent, reply).catch((error) => refuseCall(error, reply))
  })
  if (mistakes !== undefined) {
    server.removeRequestHandler(`${message.method}`)
    server.fallbackRequestHandler = () => {
      throw new McpError(ErrorCode.InvalidParams, mistakes)
    }
  }
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  await server.connect(transport)
  // The transport requires these. All responses are JSON, whatever the client accepts.
  const headers = new Headers({
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  })
  const revision = reply.request.headers['mcp-protocol-version']
  if (revision !== undefined) headers.set('mcp-protocol-version', `${revision}`)
  const request = new Request('http://localhost/mcp', { method: 'POST', headers })
  const response = await transport.handleRequest(request, { parsedBody: message })
  const text = await response.text()
  reply.code(response.status).header('cache-control', 'no-store')
  return text === '' ? reply.send() : reply.type('application/json; charset=utf-8').send(text)
}
