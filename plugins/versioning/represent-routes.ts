/**
 * Puts the resources that handlers return into the envelope of the version, and takes the fields of bodies out of it: for
 * routes whose config has `resourceType`. Their handlers and schemas know no version.
 */
import type { TObject, TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { prefixFields } from '../errors/index.ts'
import { buildBodyExamples, buildResponseExample } from '../openapi/examples.ts'
import { type DocumentedResponse, readResponse } from '../openapi/operation.ts'
import { checkRequest } from '../validation/index.ts'
import { getEnvelope } from '../validation/schema-functions.ts'
import type { Representation, SentBody } from './representation/types.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The type of the resource that the route responds with: its handler returns the members, and reads the fields of the
     * body. The schemas of the route are those of members and fields.
     */
    resourceType?: string
  }
}

function representBody(fields: TSchema, type: string, addressed: boolean, { schemas }: Representation) {
  // Each alternative of a union has examples of its own.
  const alternatives: TSchema[] = fields.anyOf ?? [fields]
  const examples = alternatives.flatMap((each) =>
    Object.entries(buildBodyExamples(schemas.body(each, type, addressed))),
  )
  const prefix = fields.anyOf ? `${fields.title}.` : ''
  return {
    ...schemas.body(fields, type, addressed),
    'x-examples': Object.fromEntries(examples.map(([name, each]) => [`${prefix}${name}`, each])),
  }
}

function representResponse(
  plain: DocumentedResponse,
  type: string,
  { one, schemas }: Representation,
): DocumentedResponse {
  const content = plain.content?.['application/json']
  if (!content) return plain
  // The members of a resource are those of an object.
  const schema = schemas.one({ type, members: content.schema as TObject, selectable: false })
  const examples = Object.entries(content.examples ?? {}).map(([name, { value, ...each }]) => [
    name,
    { ...each, value: buildResponseExample(one({ type, members: Object(value) }), schema) },
  ])
  return { ...plain, content: { 'application/json': { schema, examples: Object.fromEntries(examples) } } }
}

/** Returns the schema of a route with the envelope of the version around its body and its successful responses. */
export function representSchema(
  schema: FastifySchema,
  type: string,
  addressed: boolean,
  representation: Representation,
): FastifySchema {
  // Fastify accepts any schema; that of a body is of TypeBox.
  const fields = schema.body as TSchema | undefined
  const body = fields && representBody(fields, type, addressed, representation)
  // The body may have another type or id.
  const failures =
    body && getEnvelope(body) && schema.failures && [...new Set([...schema.failures, 409])].sort()
  const response = Object.entries(schema.response ?? {}).map(([status, each]) => [
    status,
    status.startsWith('2') ? representResponse(readResponse(status, each, type), type, representation) : each,
  ])
  return {
    ...schema,
    ...(body && { body }),
    ...(failures && { failures }),
    response: Object.fromEntries(response),
  }
}

interface RepresentOptions {
  representation: Representation
}

async function representRoutes(app: FastifyInstance, { representation }: RepresentOptions) {
  app.addHook('onRoute', (route) => {
    const { handler, schema = {} } = route
    const type = route.config?.resourceType
    if (type === undefined) return
    route.schema = representSchema(schema, type, route.url.endsWith('/:id'), representation)
    route.handler = async function (request, reply) {
      let prefix = ''
      if (schema.body !== undefined) {
        checkRequest(request)
        // Validated by the schema of the route.
        const sent = request.body as SentBody<object>
        const { id } = Object(request.params)
        const opened = representation.body(sent, id)
        prefix = opened.prefix
        request.body = opened.members
      }
      try {
        const result = await handler.call(this, request, reply)
        return reply.sent ? reply : representation.one({ type, members: Object(result) })
      } catch (error) {
        throw prefixFields(error, prefix)
      }
    }
  })
}

export default fp(representRoutes, { name: 'represent-routes' })
