/**
 * 405 and OPTIONS for every known path, made from the route table: Fastify itself answers 404 to a wrong method. 501 on
 * every path for a method that HTTP does not define.
 */
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { bodyTypes } from './content-type.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The path's methods, on the routes that answer for all the others. */
    allow?: string
  }
  interface FastifyInstance {
    answerOtherMethods(scope: FastifyInstance): void
  }
}

/**
 * The methods of RFC 9110 and RFC 5789, save CONNECT, which never becomes a request. Node's parser lets through more,
 * such as PROPFIND.
 */
const DEFINED = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE']
const isDefined = new Set(DEFINED)

const listed = (names: Iterable<string>) => [...names].sort().join(', ')

/** The headers of a reply to OPTIONS: the methods, and the media types that PATCH accepts (RFC 5789, section 3.1). */
export const describeMethods = (allow: string): Record<string, string> => ({
  Allow: allow,
  ...(allow.includes('PATCH') ? { 'Accept-Patch': bodyTypes('PATCH') } : {}),
})

/**
 * The answer of such a route.
 * @throws ApiError 405
 */
export function answerOther(reply: FastifyReply, method: string, allow: string): FastifyReply {
  if (method === 'OPTIONS') return reply.code(204).headers(describeMethods(allow)).send()
  throw apiError('METHOD_NOT_ALLOWED', { headers: { Allow: allow } })
}

/** Must be registered before the routes of its scope, and `answerOtherMethods` called after the last of them. */
async function methods(app: FastifyInstance) {
  const byUrl = new Map<string, Set<string>>()
  const everywhere = new Set(['OPTIONS'])

  app.addHook('onRoute', (route) => {
    if (route.config?.allow !== undefined) return
    const known = byUrl.get(route.url) ?? new Set(['OPTIONS'])
    for (const method of [route.method].flat()) {
      known.add(method)
      everywhere.add(method)
    }
    byUrl.set(route.url, known)
  })

  // `OPTIONS *` asks what the server as a whole can do (RFC 9110, section 9.3.7); no route has that address.
  app.addHook('onRequest', (request, reply, done) => {
    if (!isDefined.has(request.method)) throw apiError('NOT_IMPLEMENTED')
    const isForServer = request.originalUrl === '*' && request.method === 'OPTIONS'
    if (isForServer) reply.code(204).header('Allow', listed(everywhere)).send()
    else done()
  })

  app.decorate('answerOtherMethods', (scope: FastifyInstance) => {
    for (const method of DEFINED) {
      if (!scope.supportedMethods.includes(method)) scope.addHttpMethod(method, { hasBody: false })
    }
    for (const [url, known] of byUrl) {
      if (scope.prefix !== '' && !url.startsWith(`${scope.prefix}/`)) continue
      const allow = listed(known)
      scope.route({
        method: DEFINED.filter((method) => !known.has(method) || method === 'OPTIONS'),
        url: url.slice(scope.prefix.length),
        config: { allow, access: 'public' },
        schema: { hide: true },
        // In a version's scope its own hook has answered before (`version.ts`): there, nothing else may come first.
        onRequest: async (request, reply) => answerOther(reply, request.method, allow),
        handler: (_request, reply) => reply.callNotFound(),
      })
      byUrl.delete(url)
    }
  })
}

export default fp(methods, { name: 'methods', dependencies: ['errors'] })
