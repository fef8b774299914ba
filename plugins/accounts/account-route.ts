/** Registers a route of accounts in a version: its schemas, documents, limits, and its response in the envelope. */
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { exampleId } from '../../schemas/types.ts'
import { toBodySchema } from '../collection/request/body-schema.ts'
import { buildFieldExamples } from '../openapi/examples.ts'
import { type DocumentedResponse, NO_QUERY } from '../openapi/operation.ts'

export interface DocumentedRoute<F> {
  method: 'POST' | 'PATCH'
  /** The name in paths, and the type in v2. PATCH has the path of one resource. */
  name: string
  operationId: string
  summary: string
  description: string
  body: TObject & { static: F }
  /** The fields of the response. */
  result: TObject
  /** What the response says, and the example of its status. */
  success: { description: string; status: string; headers?: DocumentedResponse['headers'] }
  /** Those besides the ones of every request with a body. */
  failures: readonly number[]
}

/** A route without credentials. */
interface AccountRoute<F> extends DocumentedRoute<F> {
  run(request: FastifyRequest, reply: FastifyReply, fields: F, id: string): Promise<{ id: string }>
}

interface Route<F> {
  Body: F
  Params: { id?: string }
}

/** Returns the schema of a route for Fastify and the documents. */
export function buildRouteSchema<F>({
  method,
  name,
  body,
  result,
  success,
  failures,
  ...documented
}: DocumentedRoute<F>) {
  const isNew = method === 'POST'
  const value = { ...buildFieldExamples(result.properties), id: exampleId, status: success.status }
  const { operationId, summary, description } = documented
  return {
    operationId,
    summary,
    description,
    tags: [name],
    querystring: NO_QUERY,
    // A completion needs the token in the mail.
    hideFromCollections: !isNew,
    ...(!isNew && { params: Type.Object({ id: { ...ID, 'x-component': `${result.title}Id` } }) }),
    body: toBodySchema(body, 'create'),
    response: {
      [isNew ? 201 : 200]: {
        description: success.description,
        ...(success.headers && { headers: success.headers }),
        content: {
          'application/json': {
            schema: result,
            examples: { [`${result.title}.${success.status}`]: { value } },
          },
        },
      },
    },
    failures: [...new Set([400, 406, 408, 413, 414, 415, 422, 429, 431, 500, 503, ...failures])].sort(),
  }
}

const ID = Type.String({
  format: 'uuid',
  description: 'The id in the link of the mail',
  examples: [exampleId],
})

/** Registers a route, which counts for the address of the client. */
export function registerAccountRoute<F extends object>(app: FastifyInstance, route: AccountRoute<F>): void {
  const { method, name, run } = route
  const { concurrency, limits } = app
  const isNew = method === 'POST'

  const handle = async (request: FastifyRequest<Route<F>>, reply: FastifyReply) => {
    const { id = '' } = request.params
    // Validated by the schema of the route.
    const result = await run(request, reply, request.body as F, id)
    reply.code(isNew ? 201 : 200).header('cache-control', 'no-store')
    return result
  }

  app.route<Route<F>>({
    method,
    url: isNew ? `/${name}` : `/${name}/:id`,
    config: { access: 'public', resourceType: name },
    schema: buildRouteSchema(route),
    attachValidation: true,
    onRequest: (request: FastifyRequest) => limits.countAnonymous(request),
    handler: concurrency.holdDuring(handle),
  })
}
