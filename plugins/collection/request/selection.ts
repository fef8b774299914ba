/** Parses `fields` and `include`: the parts of a resource that a read or a list selects. */
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { type CredentialRule, getCredentialRule } from '../../access/index.ts'
import { invalidQuery } from '../../errors/index.ts'
import type { ResolvedResource } from '../resolve.ts'
import type { PublishedResource } from '../versions/published-resource.ts'
import { buildSelectionParameters } from './parameters.ts'
import { createQueryReader } from './query-validation.ts'
import { createViolation, type QueryValues, split } from './query-values.ts'

const MAX_INCLUDES = 3

/** The parts of a resource that a request selects. */
export interface Selection {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
  /** What reading the included relations requires of the credential. */
  requires: readonly CredentialRule[]
}

/** Adds a violation for each name that is not known. */
export function checkNames(
  parameter: string,
  names: readonly string[],
  known: readonly string[],
  violations: Violation[],
) {
  for (const name of new Set(names)) {
    if (violations.length >= MAX_VIOLATIONS) return
    if (!known.includes(name)) {
      const message = `"${name}" is not one of ${known.join(', ')}`
      violations.push(createViolation(parameter, message, 'INVALID_VALUE'))
    }
  }
}

/** Creates a function that reads `fields` and `include`. */
export function createSelection({ schemas, relations }: ResolvedResource) {
  const knownFields = Object.keys(schemas.read.properties)
  const knownRelations = Object.keys(relations)

  return (values: QueryValues, violations: Violation[]): Selection => {
    const fields = split(values.fields)
    const names = split(values.include)
    checkNames('fields', fields, knownFields, violations)
    checkNames('include', names, knownRelations, violations)
    if (new Set(names).size > MAX_INCLUDES) {
      const message = `must not have more than ${MAX_INCLUDES} relations`
      violations.push(createViolation('include', message, 'INVALID_VALUE'))
    }
    // In the order of the resource, so that equal requests share a statement and an entity tag.
    const include = knownRelations.filter((name) => names.includes(name))
    return {
      fields:
        values.fields === undefined
          ? undefined
          : knownFields.filter((name) => name === 'id' || fields.includes(name)),
      include,
      requires: include.flatMap((name) => {
        const relation = relations[name]
        return relation ? [getCredentialRule(relation.to, 'read')] : []
      }),
    }
  }
}

/** What a request without a query string selects. */
export const EVERYTHING: Selection = { fields: undefined, include: [], requires: [] }

/** Creates a function that parses the query string of a single read. It throws ApiError 400. */
export function createSelectionReader(ajv: Ajv, { published, names }: PublishedResource) {
  const read = createQueryReader(ajv, buildSelectionParameters(published))
  const readSelection = createSelection(published)
  return (request: FastifyRequest): Selection => {
    const { values, violations } = read(request)
    const selection = readSelection(values, violations)
    if (violations.length > 0) throw invalidQuery(violations)
    return names ? { ...selection, fields: selection.fields?.map(names.toInternal) } : selection
  }
}
