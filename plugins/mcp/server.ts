/** Answers the messages of the Model Context Protocol: a server of the SDK for each, since there are no sessions. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import {
  CallToolRequestSchema,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import type { FastifyReply } from 'fastify'
import { identity } from '../../lib/identity.ts'
import type { ApiError } from '../errors/index.ts'
import { callTool, refuseCall } from './call.ts'
import type { Tool } from './tools.ts'

const MAX_NAME_LENGTH = 64

const INSTRUCTIONS =
  'Each tool is an operation of a REST API. For the next page of a list, send pagination.cursor as cursor. ' +
  'The text of an error says what is wrong with which argument.'

// The SDK would create one for each server, with an Ajv of its own.
const jsonSchemaValidator = new AjvJsonSchemaValidator()

interface Message {
  reply: FastifyReply
  /** Those that the caller may use. */
  tools: readonly Tool[]
  /** Why a call is refused; undefined if it is not. */
  refusal: ApiError | undefined
}

/** Sends the answer to the message of a request. @param version of the service */
export async function answer({ reply, tools, refusal }: Message, version: string): Promise<FastifyReply> {
  const server = new Server(
    { name: identity.name, title: identity.title, version },
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
  const response = await transport.handleRequest(request, { parsedBody: reply.request.body })
  const text = await response.text()
  reply.code(response.status).header('cache-control', 'no-store')
  return text === '' ? reply.send() : reply.type('application/json; charset=utf-8').send(text)
}
