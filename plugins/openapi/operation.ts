/** The description of a route, from which its documentation and its serializers are built. */
import { type TSchema, Type } from '@sinclair/typebox'
import type { HeaderName } from './headers.ts'

/** The media types of request bodies; PATCH also accepts `application/merge-patch+json`. */
export const JSON_TYPES = ['application/json', 'application/vnd.api+json']

export interface Example {
  /** The name of what it is an example of. With `key`, the name in `components.examples`. */
  name: string
  key: string
  /** Absent where `key` or the value says the same. */
  summary?: string
  value: unknown
}

/** The schema and the examples of a body. */
export interface Content {
  schema: TSchema
  examples: readonly Example[]
}

export interface Parameter {
  /** The name in `components.parameters`. Parameters with the same name there are the same. */
  component: string
  in: 'path' | 'query' | 'header'
  /** The name in a request. */
  name: string
  /** The schema with the description and an example. Parameters of the path are required, all others optional. */
  schema: TSchema
}

export interface OperationResponse {
  /** The name in `components.responses`, for a response that several operations have. */
  component?: string
  description: string
  /** The headers in addition to those of every response, which the guide describes. */
  headers?: readonly HeaderName[]
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
  parameters?: readonly Parameter[]
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

const getSchemas = (parameters: readonly Parameter[], location: Parameter['in']) =>
  Object.fromEntries(
    parameters.filter((each) => each.in === location).map(({ name, schema }) => [name, schema]),
  )

/** The schema of a query string without parameters. */
export const NO_QUERY = Type.Object({}, { additionalProperties: false })

const buildHeader = (documented: TSchema) =>
  // A header is read where it applies; its documented form may be narrower than what is accepted.
  Type.Optional(Type.String({ 'x-documented': documented }))

/**
 * Returns the parts of a route's schema that every operation has: Fastify validates requests and serializes responses by
 * it. The route adds its query string and its body.
 */
export const getRouteSchema = ({ parameters = [], responses }: Operation) => ({
  params: Type.Unsafe<Record<string, string>>(Type.Object(getSchemas(parameters, 'path'))),
  headers: Type.Object(
    Object.fromEntries(
      Object.entries(getSchemas(parameters, 'header')).map(([name, schema]) => [name, buildHeader(schema)]),
    ),
  ),
  response: Object.fromEntries(
    Object.entries(responses).flatMap(([status, { content }]) =>
      content ? [[status, { content: { 'application/json': { schema: content.schema } } }]] : [],
    ),
  ),
})
