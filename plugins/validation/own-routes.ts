/** Validates the requests of routes that declare a Fastify `schema` themselves, with the same formats and errors as resources. */
import type { Ajv } from 'ajv'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Violation } from '../../schemas/error.ts'
import { apiError, invalidBody, invalidQuery } from '../errors/index.ts'
import { toViolations } from '../errors/violations.ts'
import { createAjv } from './formats.ts'

/** The error for each part of a request. A path that does not fit its schema cannot exist. */
const refusals: Record<string, (violations: readonly Violation[]) => Error> = {
  body: invalidBody,
  querystring: invalidQuery,
  params: () => apiError('RESOURCE_NOT_FOUND'),
  headers: (violations) =>
    apiError('INVALID_REQUEST', { message: 'The request has invalid header fields', violations }),
}

export default fp(
  async (app: FastifyInstance) => {
    // Created at the first such route, of which the service itself has none.
    const validators = new Map<boolean, Ajv>()
    const getAjv = (coerceTypes: boolean): Ajv => {
      const ajv = validators.get(coerceTypes) ?? createAjv({ coerceTypes })
      validators.set(coerceTypes, ajv)
      return ajv
    }
    app.setValidatorCompiler(({ schema, httpPart = 'body' }) => {
      // All parts but the body are text, from which numbers and booleans are converted.
      const validate = getAjv(httpPart !== 'body').compile(schema)
      const refuse = refusals[httpPart] ?? invalidBody
      return (value: unknown) =>
        validate(value) ? { value } : { error: refuse(toViolations(validate.errors ?? [])) }
    })
  },
  { name: 'own-routes', dependencies: ['errors'] },
)
