/** Converts routes to an OpenAPI document with @fastify/swagger, which is loaded on first use. */
import Fastify, { type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify'
import type { Json } from './components.ts'

/** The credentials of the API; routes refer to them by name. */
export const securitySchemes = {
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description:
      'An API key of a user, limited to its scopes. Create one with `POST /api-keys` and a Bearer token.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'The `access_token` in the response of `POST /tokens` with an e-mail address and a password. ' +
      'It is valid for `expires_in` seconds; `POST /tokens` with the `refresh_token` returns the next one.',
  },
} as const

/** Collects the routes that are added to a scope later. Whether a route is hidden is known once the app is ready. */
export function collectRoutes(app: FastifyInstance): RouteOptions[] {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route)
  })
  return routes
}

/** Generates the document in a temporary app, so that the memory of @fastify/swagger is freed afterwards. */
export async function generateDocument(
  routes: readonly RouteOptions[],
  convertSchema: (schema: FastifySchema) => FastifySchema,
): Promise<Json> {
  const { default: swagger } = await import('@fastify/swagger')
  const app = Fastify({ exposeHeadRoutes: false })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', components: { securitySchemes } },
    transform: ({ schema, url }) => ({ schema: convertSchema(schema), url }),
  })
  for (const { method, url, schema } of routes) {
    if (schema && !schema.hide) app.route({ method, url, schema, handler: () => undefined })
  }
  await app.ready()
  return { ...app.swagger() }
}
