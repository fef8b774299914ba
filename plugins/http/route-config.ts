/** Reads a route's `config` once per request: Fastify's `routeOptions` getter builds a new object on each access. */
import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const CONFIG = Symbol('the config of the route')

declare module 'fastify' {
  interface FastifyRequest {
    [CONFIG]?: FastifyContextConfig
  }
}

export function getRouteConfig(request: FastifyRequest): FastifyContextConfig {
  request[CONFIG] ??= request.routeOptions.config
  return request[CONFIG]
}
