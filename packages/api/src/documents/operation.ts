/** Reads the schema of a route as the description of an operation, for the documents. */
import { STATUS_CODES } from 'node:http'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { FastifyContextConfig, FastifySchema } from 'fastify'
import type { Violation } from '../errors/codes.ts'
import { buildBodyExamples, buildExample, type Example } from './examples.ts'
import type { Header } from './headers.ts'
import { toWords } from './to-words.ts'

/** The media types of request bodies; PATCH also accepts `application/merge-patch+json`. */
export const JSON_TYPES = ['application/json', 'application/vnd.api+json']

/** The error statuses that every operation with credentials can have, of those that depend on the operation. */
export const commonFailures = [400, 401, 403, 429]

/** What a 409 of an operation says, for example that a unique value is taken. */
export interface Conflict {
  /** The name of the example in the documents. */
  name: string
  message: string
  violations?: readonly Violation[]
}

/**
 * A body. The examples are under their names in `components.examples`, such as `User.whole`; the operation refers to
 * them by the part after the first dot.
 */
export interface Content {
  schema: TSchema
  examples?: Readonly<Record<string, Example>>
}

/** A response in the schema of a route: with its headers and examples, or the schema of the body alone. */
export interface DocumentedResponse {
  description: string
  /** The headers in addition to those of every response, which the guide describes. */
  headers?: Readonly<Record<string, Header>>
  /** Absent for a response without a body, whose `type` is `null`. */
  content?: { 'application/json': Content }
  type?: 'null'
  /** The name in `components.responses`, for a response that several operations have. */
  'x-component'?: string
  /** False for a response that the documents leave out. */
  'x-documented'?: false
}

type StreamTypes = Readonly<Record<string, { example: string }>>

declare module 'fastify' {
  /** Keywords for the documents, with the names that @fastify/swagger gave them. */
  interface FastifySchema {
    /** Keeps the route out of the documents. */
    hide?: boolean
    operationId?: string
    summary?: string
    description?: string
    /** The groups of operations that it belongs to. */
    tags?: readonly string[]
    /** The accepted credentials, where `{}` stands for none. Default: none of a public route, else any. */
    security?: readonly Readonly<Record<string, readonly string[]>>[]
    'x-required-scopes'?: readonly string[]
    /** The media types of the body. */
    consumes?: readonly string[]
    /** The media types of imports and of exports, each with an example. */
    'x-import'?: StreamTypes
    'x-export'?: StreamTypes
    /**
     * The statuses of errors that depend on the operation. Default: those of the credentials, the path and the body. All
     * others, such as 503, are described once for the whole document.
     */
    failures?: readonly number[]
    /** What a 409 says, which the operation then can have, besides a running request with the same Idempotency-Key. */
    conflicts?: readonly Conflict[]
    /** The messages of errors by status, for the documents. Default: usual ones of the status. */
    messages?: Readonly<Record<number, string>>
  }
}

/** A parameter. Those of the path are required. */
export interface Parameter {
  in: 'path' | 'query' | 'header'
  name: string
  isRequired: boolean
  /** The name in `components.parameters`. Parameters with the same name there are the same. */
  component?: string
  /** With the description and an example. */
  schema: TSchema
}

export interface Operation {
  method: string
  url: string
  access: FastifyContextConfig['access']
  operationId: string
  summary: string
  tags: readonly string[]
  description?: string
  security: NonNullable<FastifySchema['security']>
  'x-required-scopes'?: readonly string[]
  parameters: readonly Parameter[]
  /** The request body and its media types. */
  body?: Content & { types: readonly string[] }
  'x-import'?: StreamTypes
  'x-export'?: StreamTypes
  /** The successful responses by status. */
  responses: Record<string, DocumentedResponse>
  failures: readonly number[]
  conflicts: readonly Conflict[]
  messages: Readonly<Record<number, string>>
}

/** The schema of a query string without parameters. */
export const NO_QUERY = Type.Object({}, { additionalProperties: false })

/** The credentials of operations that do not name theirs: an API key or a Bearer token. */
export const COMMON_SECURITY = [{ apiKey: [] }, { bearer: [] }]

/** Returns the parameters of one part of a request, whose schema is an object. */
function readParameters(location: Parameter['in'], schema: unknown): Parameter[] {
  // Fastify accepts any schema; that of these parts is an object.
  const { properties = {}, required = [] } = (schema ?? {}) as Partial<TObject>
  const documented = Object.entries<TSchema>(properties).filter(([, each]) => each['x-documented'] !== false)
  return documented.map(([name, property]) => ({
    in: location,
    name,
    isRequired: location === 'path' || required.includes(name),
    component: property['x-component'],
    schema: property['x-documented'] ?? property,
  }))
}

/** Returns a response of a route, of which Fastify knows two forms: with `content`, or the schema of the body. */
export function readResponse(status: string, response: unknown, operationId: string): DocumentedResponse {
  // Fastify accepts any schema.
  const schema = response as TSchema
  const { description = STATUS_CODES[status] ?? 'Success' } = schema
  if (schema.content || schema.type === 'null') return { ...schema, description }
  const examples = { [`${schema.title ?? operationId}.whole`]: { value: buildExample(schema) } }
  return { description, content: { 'application/json': { schema, examples } } }
}

/** Returns the operationId of a route that does not name it: `getReportsYear` for `GET /api/v1/reports/:year`. */
const buildOperationId = (method: string, url: string) =>
  url
    .replace(/^\/api\/v\d+/, '')
    .split(/\W/)
    .reduce((id, word) => id + word.slice(0, 1).toUpperCase() + word.slice(1), method.toLowerCase())

/** Returns the operation of a route. What its schema does not say has a default. */
export function readOperation(
  { method, url }: { method: string; url: string },
  schema: FastifySchema,
  access: FastifyContextConfig['access'],
): Operation {
  const { operationId = buildOperationId(method, url), tags = [], response } = schema
  // Fastify accepts any schema.
  const sent = schema.body as TSchema | undefined
  const body = sent?.['x-documented'] === false ? undefined : sent
  const parameters = [
    ...readParameters('path', schema.params),
    ...readParameters('query', schema.querystring),
    ...readParameters('header', schema.headers),
  ]
  const { conflicts = [] } = schema
  const isIdempotent = parameters.some(({ name }) => name === 'Idempotency-Key')
  const {
    failures = [
      ...(access === 'public' ? [400, 429] : commonFailures),
      ...(schema.params ? [404] : []),
      ...(body ? [422] : []),
    ],
  } = schema
  const bodyTypes = method === 'PATCH' ? [...JSON_TYPES, 'application/merge-patch+json'] : JSON_TYPES
  return {
    method,
    url,
    access,
    operationId,
    summary: schema.summary ?? toWords(operationId),
    tags,
    ...(schema.description !== undefined && { description: schema.description }),
    ...(schema['x-required-scopes'] && { 'x-required-scopes': schema['x-required-scopes'] }),
    security: schema.security ?? (access === 'public' ? [] : COMMON_SECURITY),
    parameters,
    ...(body && {
      body: {
        schema: body,
        examples: body['x-examples'] ?? buildBodyExamples(body),
        types: schema.consumes ?? bodyTypes,
      },
    }),
    ...(schema['x-import'] && { 'x-import': schema['x-import'] }),
    ...(schema['x-export'] && { 'x-export': schema['x-export'] }),
    responses: Object.fromEntries(
      Object.entries(response ?? {})
        .filter(([, each]) => each['x-documented'] !== false)
        .map(([status, each]) => [status, readResponse(status, each, operationId)]),
    ),
    failures: [...new Set([...failures, ...(conflicts.length > 0 || isIdempotent ? [409] : [])])].sort(),
    conflicts,
    messages: schema.messages ?? {},
  }
}
