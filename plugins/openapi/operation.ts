/** The description of a route, from which its documentation and its serializers are built. */
import type { TProperties, TSchema } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import type { HeaderName } from './headers.ts'

export interface Example {
  summary: string
  value: unknown
}

/** The schema and the examples of a body. */
export interface Content {
  schema: TSchema
  examples: Record<string, Example>
}

export interface OperationResponse {
  description: string
  /** The headers in addition to those of every response. */
  headers?: readonly HeaderName[]
  /** Headers that some responses with this status lack. */
  optionalHeaders?: readonly HeaderName[]
  /** Undefined for a response without a body. */
  content?: Content
}

export interface Operation {
  operationId: string
  summary: string
  /** The groups of operations that it belongs to. */
  tags: readonly string[]
  description: string
  /** The accepted credentials, where `{}` stands for none. Without it, the route does not read credentials. */
  security?: readonly Record<string, readonly string[]>[]
  'x-required-scopes'?: readonly string[]
  /** The schemas of the parameters by location and name. Those of the path are required, all others optional. */
  parameters?: Record<'path' | 'query' | 'header', TProperties>
  /** The request body and its media types. */
  body?: Content & { types: readonly string[] }
  /** The successful responses by status. */
  responses: Record<number, OperationResponse>
  /** The statuses of errors, which `failures.ts` describes. */
  failures: readonly number[]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** For the documents; a route without it is not documented. */
    operation?: Operation
  }
}

/** Returns the schema of a route. It has the responses only, for the serializers: the handlers validate requests. */
export const getRouteSchema = ({ responses }: Operation): FastifySchema => ({
  response: Object.fromEntries(
    Object.entries(responses).flatMap(([status, { content }]) =>
      content ? [[status, { content: { 'application/json': { schema: content.schema } } }]] : [],
    ),
  ),
})
