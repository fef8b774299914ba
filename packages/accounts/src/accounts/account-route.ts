/** A route of accounts: its schemas, documents and limits. */
import { buildFieldExamples, type DocumentedResponse } from '@resource-api/api/documents'
import { exampleId } from '@resource-api/api/schemas'
import { operation } from '@resource-api/resources'
import { toBodySchema } from '@resource-api/resources/internal'
import { type Static, type TObject, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { refuseLink } from './links.ts'

interface DocumentedRoute<B extends TObject> {
  method: 'POST' | 'PATCH'
  /** The name in paths, and the type in v2. PATCH has the path of one resource. */
  name: string
  operationId: string
  summary: string
  description: string
  body: B
  /** The fields of the response. */
  result: TObject
  /** What the response says, and the example of its status. */
  success: { description: string; status: string; headers?: DocumentedResponse['headers'] }
  /** Those besides the ones of every request with a body. */
  failures: readonly number[]
}

const ID = Type.String({
  format: 'uuid',
  description: 'The id in the link of the mail',
  examples: [exampleId],
})

/** Returns what the documents and the checks of an operation need. */
export function describeAccountRoute<B extends TObject>({
  method,
  name,
  body,
  result,
  success,
  failures,
  ...documented
}: DocumentedRoute<B>) {
  const isNew = method === 'POST'
  const value = { ...buildFieldExamples(result.properties), id: exampleId, status: success.status }
  const response: Readonly<Record<number, DocumentedResponse>> = {
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
  }
  const { operationId, summary, description } = documented
  return {
    type: name,
    operationId,
    summary,
    description,
    tags: [name],
    ...(!isNew && {
      params: Type.Object({ id: Type.Unsafe<string>({ ...ID, 'x-component': `${result.title}Id` }) }),
    }),
    // It validates the fields of this schema.
    body: Type.Unsafe<Static<B>>(toBodySchema(body, 'create')),
    response,
    failures: [400, 422, 429, ...failures],
    ...(!isNew && { messages: { 403: refuseLink().message } }),
  }
}

/** A route without credentials, which counts for the address of the client. */
export const accountOperation = <B extends TObject>(
  { limits }: FastifyInstance,
  {
    run,
    ...documented
  }: DocumentedRoute<B> & {
    run(request: FastifyRequest, reply: FastifyReply, fields: Static<B>, id: string): Promise<{ id: string }>
  },
) => ({
  ...operation({
    ...describeAccountRoute(documented),
    access: 'public',
    run({ request, reply, params, body }) {
      reply.header('cache-control', 'no-store')
      return run(request, reply, body, Object(params).id)
    },
  }),
  onRequest: (request: FastifyRequest) => limits.countAnonymous(request),
})
