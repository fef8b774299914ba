/**
 * The compilers of all routes: those of resources and an adopter's own have the same formats and errors.
 *
 * Fastify validates the path, the body, the query and the headers in this order, and stops at the first part with an
 * error. The order of the API is another one (400 of the query before 422 of the body before 404 of the path), and only
 * the handler knows some violations of a body: the routes of resources have `attachValidation` and call `checkRequest`.
 */
import { Readable } from 'node:stream'
import selector from '@fastify/fast-json-stringify-compiler'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Violation } from '../errors/codes.ts'
import { type ApiError, apiError, invalidBody } from '../errors/errors.ts'
import { compileBody, type Validated } from './body.ts'
import { checkRequestSchema, checkSchema, serializerOptions } from './formats.ts'
import { getEnvelope } from './schema-functions.ts'
import { compileHeaders, compileParams, compileQuery } from './text.ts'

/** Compiles the schema of a body. That of an import is a stream, whose rows its handler validates. */
function compileRouteBody(schema: TSchema): (sent: unknown) => Validated {
  const validate = compileBody(schema)
  return (sent) => (sent instanceof Readable ? { value: sent } : validate(sent))
}

const compilers = {
  body: compileRouteBody,
  querystring: compileQuery,
  params: compileParams,
  headers: compileHeaders,
}

type Part = keyof typeof compilers

const isPart = (part = ''): part is Part => Object.hasOwn(compilers, part)

/**
 * Checks the percent-encoding of an address, which Fastify's parser passes through if it is invalid or not UTF-8.
 * @throws ApiError 400
 */
function checkEncoding(originalUrl: string) {
  const queryIndex = originalUrl.indexOf('?')
  if (queryIndex === -1) return
  try {
    decodeURIComponent(originalUrl.slice(queryIndex))
  } catch (cause) {
    const message = 'The query string is not valid percent-encoded UTF-8'
    throw apiError('INVALID_REQUEST', { message, cause })
  }
}

/** Returns the error of a part that Fastify has not replaced by its value. */
function findError(request: FastifyRequest, part: Part, sent: unknown): ApiError | undefined {
  // The compiler below makes all validators.
  const validate = request.getValidationFunction(part) as ((sent: unknown) => Validated) | undefined
  return validate?.(sent).error
}

/**
 * Throws the first error of a request in the order of the API.
 * @param findViolations returns the violations of the body that only the request knows
 * @throws ApiError 400 for the form of the body, then for the query; 422 for the body; 404 for the path
 */
export function checkRequest(request: FastifyRequest, findViolations?: () => readonly Violation[]): void {
  const { body, originalUrl, query, validationError: first } = request
  const part = first?.validationContext
  // The other parts of the request are valid then.
  if (part === 'headers') throw first
  const bodyError = part === 'params' || part === 'body' ? findError(request, 'body', body) : undefined
  if (bodyError?.status === 400) throw bodyError
  if (originalUrl.includes('%')) checkEncoding(originalUrl)
  const queryError = first && part !== 'querystring' ? findError(request, 'querystring', query) : undefined
  if (part === 'querystring') throw first
  if (queryError) throw queryError
  if (bodyError?.status === 409) throw bodyError
  const violations = findViolations?.() ?? []
  if (bodyError || violations.length > 0) {
    throw invalidBody([...violations, ...(bodyError?.violations ?? [])])
  }
  if (first) throw first
}

const createCompiler = selector()
const serializers = new Map<string, selector.Serializer>()

/**
 * Fastify's default serializer compiler, once per schema, because many routes share the same schemas, and when a response
 * is first sent: with 100 resources, the start would take 1.8 s for it.
 * @param checksSchemas whether a wrong schema stops the start; otherwise the first response fails
 */
export const createSerializerFactory =
  (checksSchemas: boolean): selector.SerializerFactory =>
  (sharedSchemas, options) => {
    const compile = createCompiler(sharedSchemas, options)
    const compileOnce = (route: Parameters<typeof compile>[0]) => {
      // The serializer depends only on the route's schema and on the shared schemas that it may reference.
      const key = JSON.stringify([sharedSchemas, route.schema])
      const serialize = serializers.get(key) ?? compile(route)
      serializers.set(key, serialize)
      return serialize
    }
    return (route) => {
      if (checksSchemas) checkSchema(route.schema)
      let serialize: selector.Serializer | undefined
      return (value) => {
        serialize ??= compileOnce(route)
        return serialize(value)
      }
    }
  }

const getSerializer = createSerializerFactory(false)({}, serializerOptions)

/** Returns the serializer of a value that is not a whole response. It is compiled at its first use. */
export const compileSerializer = (schema: TSchema): ((value: unknown) => string) =>
  getSerializer({ schema, method: '', url: '', httpStatus: '' })

interface ValidationOptions {
  NODE_ENV: string
}

/**
 * Returns whether a wrong schema or example stops the start; otherwise the first request with it fails. `npm run build`
 * checks them too. With 100 resources, the check of the examples alone takes 0.5 s.
 */
export const isCheckingSchemas = ({ NODE_ENV }: ValidationOptions): boolean => NODE_ENV !== 'production'

export default fp(
  async (app: FastifyInstance, options: ValidationOptions) => {
    const checksSchemas = isCheckingSchemas(options)
    app.setValidatorCompiler(({ schema: given, httpPart }) => {
      // The schemas of routes are those of TypeBox, or JSON Schema objects with the same keywords.
      const schema = given as TSchema
      if (checksSchemas) checkRequestSchema(getEnvelope(schema)?.fields ?? schema)
      return (isPart(httpPart) ? compilers[httpPart] : compileRouteBody)(schema)
    })
  },
  { name: 'validation', dependencies: ['errors'] },
)
