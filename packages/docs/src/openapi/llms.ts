/** Serves `/llms.txt` (https://llmstxt.org): where a language model finds the guide and the documents. */
import { identity } from '@resource-api/database'
import { createAsset, serveAsset } from '@resource-api/http/assets'
import type { Config } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'

/** The path of the guide of a version, in Markdown. */
export const getGuidePath = (version: number): string => `/openapi/v${version}.md`

/** Returns the guide of a document, which is its description. */
export const readGuide = ({ info }: { info?: unknown }): string =>
  typeof info === 'object' && info !== null && 'description' in info ? String(info.description) : ''

export default async function llms(
  app: FastifyInstance,
  { MCP, PUBLIC_URL = '' }: Pick<Config, 'MCP' | 'PUBLIC_URL'>,
) {
  const listed = app.versions.flatMap(({ representation: { version } }) => [
    `- [Guide of version ${version}](${PUBLIC_URL}${getGuidePath(version)}): authentication, permissions, lists, errors, retries, events`,
    `- [OpenAPI document of version ${version}](${PUBLIC_URL}/openapi/v${version}.json): all operations and schemas`,
  ])
  const tools = MCP
    ? [`- [Tools](${PUBLIC_URL}/mcp): the operations as tools, over the Model Context Protocol`]
    : []
  const text = `# ${identity.title}

> An HTTP JSON API of resources. Read the guide before you call it.

## Documents

${[...listed, ...tools].join('\n')}
`
  serveAsset(app, '/llms.txt', async () => createAsset('text/plain; charset=utf-8', text))
}
