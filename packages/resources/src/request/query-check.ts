/** Checks query strings against what the caller may read: for that caller, a field that it may not read does not exist. */

import { ApiError, invalidQuery, type Violation } from '@resource-api/api/errors'
import { checkRequest, compileQuery } from '@resource-api/api/validation'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import type { Resource } from '../definition/resource.ts'

/** Returns the query string of a request as it was sent. */
export const readSentQuery = ({ server, raw }: FastifyRequest): URLSearchParams =>
  new URLSearchParams(server.addressing.getAddress(raw).query)

/** Returns the violations of a query string; undefined if those of its schema hold for every role. */
export type CheckRole = (request: FastifyRequest) => readonly Violation[] | undefined

/**
 * Checks a request without a body.
 * @param checkRole takes the place of the schema of the query string
 * @param violations those of the query string that no schema finds
 * @throws ApiError 400 with all violations
 */
export function checkQuery(
  request: FastifyRequest,
  checkRole: CheckRole,
  violations: readonly Violation[] = [],
): void {
  let invalid: readonly Violation[] = []
  try {
    checkRequest(request)
  } catch (error) {
    const isOfQuery = error instanceof ApiError && error.status === 400 && error.violations.length > 0
    if (!isOfQuery) throw error
    invalid = error.violations
  }
  const found = checkRole(request) ?? invalid
  const others = found.filter(({ field }) => violations.every((each) => each.field !== field))
  if (violations.length + others.length > 0) throw invalidQuery([...violations, ...others])
}

/** Creates the check of a query string by the schema of the role, if that differs from that of the route. */
export function createCheckRole(resource: Resource, buildSchema: (view: Resource) => TSchema): CheckRole {
  const validators = new Map<Resource, ReturnType<typeof compileQuery>>()
  return (request) => {
    const view = request.actor ? resource.forRole(request.actor.role) : resource
    const isSame = view.hidden.length === 0 && view.relations === resource.relations
    if (isSame) return undefined
    const validate = validators.get(view) ?? compileQuery(buildSchema(view))
    validators.set(view, validate)
    const query = readSentQuery(request)
    const sent = [...new Set(query.keys())].map((name) => {
      const values = query.getAll(name)
      return [name, values.length > 1 ? values : values[0]] as const
    })
    return validate(Object.fromEntries(sent)).error?.violations ?? []
  }
}
