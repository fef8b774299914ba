/** Routes as @fastify/swagger tells them, which is loaded when somebody asks. */
import Fastify, { type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify'
import type { Json } from './components.ts'

/** How an operation may be asked for; routes name them. */
export const securitySchemes = {
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description:
      'A key of a user, which may do what its scopes allow. With a Bearer token, `POST /api-keys` makes one.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'An access token: `POST /tokens` with an e-mail address and a password gives one, as `access_token`. ' +
      'It holds for `expires_in` seconds; `POST /tokens` with the `refresh_token` gives the next.',
  },
} as const

/** The routes that a scope gets from now on; whether one is hidden is known once the app is ready. */
export function routesOf(app: FastifyInstance): RouteOptions[] {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route)
  })
  return routes
}

/** By an app of its own, which never hears a request: it goes when all is told, with all that @fastify/swagger keeps. */
export async function tell(
  routes: readonly RouteOptions[],
  schemaOf: (schema: FastifySchema) => FastifySchema,
): Promise<Json> {
  const { default: swagger } = await import('@fastify/swagger')
  const app = Fastify({ exposeHeadRoutes: false })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', components: { securitySchemes } },
    transform: ({ schema, url }) => ({ schema: schemaOf(schema), url }),
  })
  for (const { method, url, schema } of routes) {
    if (schema && !schema.hide) app.route({ method, url, schema, handler: () => undefined })
  }
  await app.ready()
  return { ...app.swagger() }
}
