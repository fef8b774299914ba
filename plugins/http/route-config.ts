/** What a route says of itself, to those who ask at every request: Fastify makes an object of all its options each time. */
import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const CONFIG = Symbol('the config of the route')

declare module 'fastify' {
  interface FastifyRequest {
    [CONFIG]?: FastifyContextConfig
  }
}

export function configOf(request: FastifyRequest): FastifyContextConfig {
  request[CONFIG] ??= request.routeOptions.config
  return request[CONFIG]
}
