/** Responds to OPTIONS and, with 405 in place of Fastify's 404, to unsupported methods on every path with a route. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/errors.ts'
import { getBodyTypes } from './content-type.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The value of the Allow header. Set only on the routes for the methods that a path does not support. */
    allow?: string
  }
  interface FastifyInstance {
    /** Adds the routes for OPTIONS and 405 to the paths of a scope. Must follow the scope's last route. */
    answerOtherMethods(scope: FastifyInstance): void
    /**
     * Responds to a request without a route.
     * @throws ApiError 404
     */
    answerUnrouted(request: FastifyRequest, reply: FastifyReply): void
  }
}

/**
 * The methods of RFC 9110 and RFC 5789, except CONNECT, for which Node emits no request, and QUERY
 * (draft-ietf-httpbis-safe-method-w-body). Node's parser accepts others, such as PROPFIND.
 */
const HTTP_METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'QUERY', 'TRACE']

/** Returns whether HTTP defines a method. */
export const isHttpMethod = (method: string): boolean => HTTP_METHODS.includes(method)

const joinMethods = (methods: Iterable<string>) => [...methods].sort().join(', ')

/** Returns the headers of a response to OPTIONS: the methods, and the media types for PATCH (RFC 5789, section 3.1). */
export const getOptionsHeaders = (allow: string): Record<string, string> => ({
  Allow: allow,
  ...(allow.includes('PATCH') ? { 'Accept-Patch': getBodyTypes('PATCH') } : {}),
})

/**
 * Responds to OPTIONS, and rejects a method that the path does not support.
 * @throws ApiError 405
 */
export function answerOtherMethod(reply: FastifyReply, method: string, allow: string): FastifyReply {
  if (method === 'OPTIONS') return reply.code(204).headers(getOptionsHeaders(allow)).send()
  throw apiError('METHOD_NOT_ALLOWED', { headers: { Allow: allow } })
}

/** Must be registered before the routes of its scopes: it collects them in `onRoute`. */
async function methodNotAllowed(app: FastifyInstance) {
  const methodsByUrl = new Map<string, Set<string>>()
  const allMethods = new Set(['OPTIONS'])

  app.addHook('onRoute', (route) => {
    if (route.config?.allow !== undefined) return
    const methods = methodsByUrl.get(route.url) ?? new Set(['OPTIONS'])
    for (const method of [route.method].flat()) methods.add(method)
    for (const method of methods) allMethods.add(method)
    methodsByUrl.set(route.url, methods)
  })

  app.decorate('answerUnrouted', ({ method, originalUrl, raw }, reply) => {
    // `OPTIONS *` asks for the methods of the whole server (RFC 9110, section 9.3.7).
    if (method === 'OPTIONS' && originalUrl === '*') {
      reply.code(204).header('Allow', joinMethods(allMethods)).send()
      return
    }
    const { isVersioned, path } = app.addressing.getAddress(raw)
    const message = isVersioned ? undefined : app.addressing.describeVersion(path)
    throw apiError('RESOURCE_NOT_FOUND', message === undefined ? {} : { message })
  })

  app.decorate('answerOtherMethods', (scope: FastifyInstance) => {
    for (const method of HTTP_METHODS) {
      if (!scope.supportedMethods.includes(method)) scope.addHttpMethod(method, { hasBody: false })
    }
    for (const [url, methods] of methodsByUrl) {
      if (scope.prefix !== '' && !url.startsWith(`${scope.prefix}/`)) continue
      const allow = joinMethods(methods)
      scope.route({
        method: HTTP_METHODS.filter((method) => !methods.has(method) || method === 'OPTIONS'),
        url: url.slice(scope.prefix.length),
        config: { allow, access: 'public' },
        // For routes outside the versions. In a version's scope, the first hook (versioning/index.ts) responds
        // before this one, so that 405 takes precedence over the checks of the other hooks.
        onRequest: async (request, reply) => answerOtherMethod(reply, request.method, allow),
        handler: (_request, reply) => reply.callNotFound(),
      })
      methodsByUrl.delete(url)
    }
  })
}

export default fp(methodNotAllowed, { name: 'method-not-allowed', dependencies: ['errors'] })
