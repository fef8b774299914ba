/** 405 and OPTIONS for every known path, made from the route table: Fastify itself answers 404 to a wrong method. */
import { METHODS } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The path's methods, on the routes that answer for all the others. */
    allow?: string
  }
}

const ALL = METHODS.filter((method) => method !== 'CONNECT')

/** Must be registered before the routes of its scope, and `answer` called after the last of them. */
async function methods(app: FastifyInstance) {
  const byUrl = new Map<string, Set<string>>()

  app.addHook('onRoute', (route) => {
    if (route.config?.allow !== undefined) return
    const known = byUrl.get(route.url) ?? new Set(['OPTIONS'])
    for (const method of [route.method].flat()) known.add(method)
    byUrl.set(route.url, known)
  })

  app.decorate('answerOtherMethods', (scope: FastifyInstance) => {
    for (const method of ALL) {
      if (!scope.supportedMethods.includes(method)) scope.addHttpMethod(method, { hasBody: false })
    }
    for (const [url, known] of byUrl) {
      if (known.size === 0 || !url.startsWith(scope.prefix)) continue
      const allow = [...known].sort().join(', ')
      scope.route({
        method: ALL.filter((method) => method === 'OPTIONS' || !known.has(method)),
        url: url.slice(scope.prefix.length),
        config: { allow, access: 'public' },
        schema: { hide: true },
        // The scope's first hook answers for these (`version.ts`); nothing else of the scope runs.
        handler: (_request, reply) => reply.callNotFound(),
      })
      byUrl.delete(url)
    }
  })
}

declare module 'fastify' {
  interface FastifyInstance {
    answerOtherMethods(scope: FastifyInstance): void
  }
}

export default fp(methods, { name: 'methods' })
