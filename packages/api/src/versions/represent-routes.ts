/**
 * Puts the results of routes into the envelope of the version, and the fields of their bodies. It is the only place that
 * does: the handlers, and the schemas that the routes were written with, know no version.
 */
import { OptionalKind, type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { buildBodyExamples, buildResponseExample } from '../documents/examples.ts'
import { type DocumentedResponse, readResponse } from '../documents/operation.ts'
import { getFieldsOf, getResultShape, type Result } from '../results/result.ts'
import { getEnvelope } from '../validation/schema-functions.ts'
import type { Representation } from './representation/types.ts'

/** Returns the schema of a body with its envelope; any other body as it is. */
function representBody(plain: TSchema, { schemas }: Representation): TSchema {
  const { type, addressed, id, mode } = getFieldsOf(plain) ?? {}
  if (type === undefined || addressed === undefined) return plain
  const fields = mode ? schemas.fields(plain, type, mode) : plain
  const given = schemas.body(fields, type, addressed, id)
  const body = OptionalKind in plain ? Type.Optional(given) : given
  const shown = 'x-documented' in plain ? { 'x-documented': plain['x-documented'] } : {}
  // Each alternative of a union has examples of its own.
  const alternatives: TSchema[] | undefined = plain.anyOf
  if (!alternatives) return { ...body, ...shown }
  const examples = alternatives.flatMap((each) =>
    Object.entries(buildBodyExamples(schemas.body(each, type, addressed, id))),
  )
  const prefix = `${plain.title}.`
  const named = examples.map(([name, example]) => [`${prefix}${name}`, example])
  return { ...body, ...shown, 'x-examples': Object.fromEntries(named) }
}

/** Returns a result as the JSON value of a response. */
const represent = ({ one, many }: Representation, result: Result) =>
  'entity' in result ? one(result.entity, result.meta) : many(result.entities, result.pagination, result.meta)

function representResponse(plain: DocumentedResponse, representation: Representation): DocumentedResponse {
  const content = plain.content?.['application/json']
  const result = content && getResultShape(content.schema)
  if (!result) return plain
  const { one, many } = representation.schemas
  const schema = (result.many ? many : one)(result.shape)
  const examples = Object.entries(content.examples ?? {}).map(([name, { value, ...each }]) => [
    name,
    // The examples of such a schema are results.
    { ...each, value: buildResponseExample(represent(representation, value as Result), schema) },
  ])
  return { ...plain, content: { 'application/json': { schema, examples: Object.fromEntries(examples) } } }
}

/** Returns the schema of a route with the envelope of the version around its body and its successful responses. */
function representSchema(schema: FastifySchema, representation: Representation): FastifySchema {
  // Fastify accepts any schema; that of a body is of TypeBox.
  const plain = schema.body as TSchema | undefined
  const body = plain && representBody(plain, representation)
  // A typed body may have another type, or another id.
  const type = body && getEnvelope(body) && plain && getFieldsOf(plain)?.type
  const conflicts = type !== undefined && {
    conflicts: [
      ...(schema.conflicts ?? []),
      {
        name: 'type',
        message: `The type in the body must be "${type}"`,
        violations: [{ field: 'data.type', message: `must be "${type}"`, code: 'INVALID_VALUE' as const }],
      },
    ],
  }
  const response = Object.entries(schema.response ?? {}).map(([status, each]) => [
    status,
    representResponse(readResponse(status, each, schema.operationId ?? ''), representation),
  ])
  return {
    ...schema,
    ...(body && { body }),
    ...conflicts,
    ...(schema.response !== undefined && { response: Object.fromEntries(response) }),
  }
}

const hasResult = ({ response }: FastifySchema): boolean =>
  Object.values(response ?? {}).some((each) => {
    const schema: TSchema | undefined = each.content?.['application/json'].schema
    return schema && getResultShape(schema)
  })

interface RepresentOptions {
  representation: Representation
}

async function representRoutes(app: FastifyInstance, { representation }: RepresentOptions) {
  /** Returns the response for what a handler has returned: a result; or a reply, a stream or text, which it leaves. */
  const respond = (returned: unknown, reply: FastifyReply): unknown => {
    if (reply.sent || typeof returned !== 'object' || returned === null) return returned
    if (!('entity' in returned || 'entities' in returned)) return returned
    // What the handlers of these routes return besides streams and replies.
    return represent(representation, returned as Result)
  }

  app.addHook('onRoute', (route) => {
    const { handler, schema } = route
    if (!schema) return
    route.schema = representSchema(schema, representation)
    if (!hasResult(schema)) return
    route.handler = async function (request: FastifyRequest, reply: FastifyReply) {
      return respond(await handler.call(this, request, reply), reply)
    }
  })
}

export default fp(representRoutes, { name: 'represent-routes' })
