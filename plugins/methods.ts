/** 405 and OPTIONS for every known path, made from the route table: Fastify itself answers 404 to a wrong method. */
import { METHODS } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from './errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The path's methods, on the routes that answer for all the others. */
    allow?: string
  }
  interface FastifyInstance {
    answerOtherMethods(scope: FastifyInstance): void
  }
}

/** Those that Node's parser lets through; CONNECT never becomes a request. */
const ALL = METHODS.filter((method) => method !== 'CONNECT')

const listed = (methods: Iterable<string>) => [...methods].sort().join(', ')

/**
 * The answer of such a route.
 * @throws ApiError 405
 */
export function answerOther(reply: FastifyReply, method: string, allow: string): FastifyReply {
  if (method === 'OPTIONS') return reply.code(204).header('Allow', allow).send()
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
    const isForServer = request.originalUrl === '*' && request.method === 'OPTIONS'
    if (isForServer) answerOther(reply, 'OPTIONS', listed(everywhere))
    else done()
  })

  app.decorate('answerOtherMethods', (scope: FastifyInstance) => {
    for (const method of ALL) {
      if (!scope.supportedMethods.includes(method)) scope.addHttpMethod(method, { hasBody: false })
    }
    for (const [url, known] of byUrl) {
      if (scope.prefix !== '' && !url.startsWith(`${scope.prefix}/`)) continue
      const allow = listed(known)
      scope.route({
        method: ALL.filter((method) => !known.has(method) || method === 'OPTIONS'),
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
