/** An agent: the client of the SDK, connected to an app over HTTP. */
import {
  Client,
  StreamableHTTPClientTransport,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client'
import type { Json, TestApp } from '../../../testing/helpers/app.ts'
import type { Owner } from '../../../testing/helpers/database.ts'

export const MCP = { MCP: 'true' }

interface Outcome {
  isError: boolean
  /** The envelope: of the structured content or, of an error, of the first text. */
  body: Json
  /** All texts. */
  texts: string[]
}

interface Agent {
  client: Client
  /** Returns the names of the tools. */
  listNames(): Promise<string[]>
  callTool(name: string, sent?: Record<string, unknown>): Promise<Outcome>
}

/** Connects an agent with the headers of its credential. It negotiates the revision of the protocol as the mode says. */
export async function connectAgent(
  t: Owner,
  { base }: Pick<TestApp, 'base'>,
  headers: Record<string, string>,
  mode: VersionNegotiationMode = 'legacy',
): Promise<Agent> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers } }),
  )
  t.teardown(() => client.close())
  return {
    client,
    listNames: async () => (await client.listTools()).tools.map(({ name }) => name),
    async callTool(name, sent = {}) {
      const result = await client.callTool({ name, arguments: sent })
      const texts = result.content.map((each) => (each.type === 'text' ? each.text : ''))
      const isError = result.isError === true
      return { isError, texts, body: isError ? JSON.parse(texts[0] ?? '') : result.structuredContent }
    },
  }
}

/** Sends a body to `POST /mcp`. */
export const sendMessage = (
  { base }: Pick<TestApp, 'base'>,
  headers: Record<string, string>,
  body: unknown,
  signal?: AbortSignal,
) =>
  fetch(`${base}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal && { signal }),
  })

let id = 0

/** Sends a request of JSON-RPC. @returns the status, the headers and the parsed response */
export async function request(
  app: Pick<TestApp, 'base'>,
  headers: Record<string, string>,
  method: string,
  params?: unknown,
) {
  const reply = await sendMessage(app, headers, {
    jsonrpc: '2.0',
    id: ++id,
    method,
    ...(params !== undefined && { params }),
  })
  const body: Json = await reply.json()
  return { status: reply.status, headers: reply.headers, body }
}
