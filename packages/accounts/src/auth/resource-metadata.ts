/** Says where clients get a token for a route: the identity provider, in the metadata of RFC 9728. */
import { identity } from '@resource-api/database'
import { createJsonAsset, serveAsset } from '@resource-api/http/assets'
import { getServerUrl } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'

const METADATA_PATH = '/.well-known/oauth-protected-resource'

interface MetadataOptions {
  /** The issuer of the identity provider. */
  issuer: string
  publicUrl: string | undefined
}

/** Serves the metadata of a route, and names it in the challenges of the route's scope. */
export function addResourceMetadata(
  scope: FastifyInstance,
  path: string,
  { issuer, publicUrl }: MetadataOptions,
): void {
  const create = () => {
    const server = getServerUrl(scope, publicUrl)
    return createJsonAsset({
      resource: `${server}${path}`,
      resource_name: identity.title,
      resource_documentation: `${server}/docs`,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
    })
  }
  serveAsset(scope, METADATA_PATH, create)
  // Where clients look that do not read the challenge (RFC 9728, section 3.1).
  serveAsset(scope, `${METADATA_PATH}${path}`, create)

  scope.addHook('onSend', async (_request, reply) => {
    const challenge = reply.getHeader('www-authenticate')
    if (challenge === undefined) return
    const url = `${getServerUrl(scope, publicUrl)}${METADATA_PATH}`
    reply.header('www-authenticate', `${challenge}, resource_metadata="${url}"`)
  })
}
