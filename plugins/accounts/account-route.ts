/** Registers a route of accounts in a version: its schemas, documents, limits, and its response in the envelope. */
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { exampleId } from '../../schemas/types.ts'
import { toBodySchema } from '../collection/request/body-schema.ts'
import { rewriteError } from '../errors/index.ts'
import { buildBodyExamples, buildFieldExamples, buildResponseExample } from '../openapi/examples.ts'
import { type DocumentedResponse, NO_QUERY } from '../openapi/operation.ts'
import { checkRequest } from '../validation/index.ts'
import type { Representation, SentBody } from '../versioning/representation/types.ts'

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
  Body: SentBody<F>
  Params: { id?: string }
}

/** Returns the schema of a route for Fastify and the documents. */
export function buildRouteSchema<F>(
  { one, schemas, version }: Representation,
  { method, name, body: fields, result, success, failures, ...documented }: DocumentedRoute<F>,
) {
  const isNew = method === 'POST'
  const body = schemas.body(toBodySchema(fields, 'create'), name, !isNew)
  const schema = schemas.one({ type: name, members: result, selectable: false })
  const members = { ...buildFieldExamples(result.properties), id: exampleId, status: success.status }
  const example = { value: buildResponseExample(one({ type: name, members }), schema) }
  const { operationId, summary, description } = documented
  // A typed body may have another type.
  const conflict = version === 1 ? [] : [409]
  return {
    operationId,
    summary,
    description,
    tags: [name],
    querystring: NO_QUERY,
    // A completion needs the token in the mail.
    hideFromCollections: !isNew,
    ...(!isNew && { params: Type.Object({ id: { ...ID, 'x-component': `${result.title}Id` } }) }),
    body: { ...body, 'x-examples': buildBodyExamples(body) },
    response: {
      [isNew ? 201 : 200]: {
        description: success.description,
        ...(success.headers && { headers: success.headers }),
        content: {
          'application/json': { schema, examples: { [`${result.title}.${success.status}`]: example } },
        },
      },
    },
    failures: [
      ...new Set([400, 406, 408, 413, 414, 415, 422, 429, 431, 500, 503, ...conflict, ...failures]),
    ].sort(),
  }
}

const ID = Type.String({
  format: 'uuid',
  description: 'The id in the link of the mail',
  examples: [exampleId],
})

/** Returns an error with the fields named as they stood in the body. */
export const toSentError = (error: unknown, prefix: string): unknown =>
  rewriteError(error, ({ violations }) => ({
    violations: violations.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
  }))

/**
 * Registers a route, which counts for the address of the client.
 * @param representation that of the version in whose scope the route is registered
 */
export function registerAccountRoute<F extends object>(
  app: FastifyInstance,
  representation: Representation,
  route: AccountRoute<F>,
): void {
  const { method, name, run } = route
  const { concurrency, limits } = app
  const isNew = method === 'POST'

  const handle = async (request: FastifyRequest<Route<F>>, reply: FastifyReply) => {
    checkRequest(request)
    const { id = '' } = request.params
    // Validated by the schema of the route.
    const sent = request.body as SentBody<F>
    const { members: fields, prefix } = representation.body(sent, isNew ? undefined : id)
    try {
      const members = await run(request, reply, fields, id)
      reply.code(isNew ? 201 : 200).header('cache-control', 'no-store')
      return representation.one({ type: name, members: { ...members } })
    } catch (error) {
      throw toSentError(error, prefix)
    }
  }

  app.route<Route<F>>({
    method,
    url: isNew ? `/${name}` : `/${name}/:id`,
    config: { access: 'public' },
    schema: buildRouteSchema(representation, route),
    attachValidation: true,
    onRequest: (request: FastifyRequest) => limits.countAnonymous(request),
    handler: concurrency.holdDuring(handle),
  })
}
