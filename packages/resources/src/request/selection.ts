/** Reads which fields and relations a request selects, and the query string of a single read. */

import { getCredentialRule } from '@resource-api/api/access'
import { MAX_VIOLATIONS, type Violation } from '@resource-api/api/errors'
import { createViolation, withDecode } from '@resource-api/api/validation'
import type { FieldMappings } from '@resource-api/api/versions'
import type { TUnsafe } from '@sinclair/typebox'
import type { Selection } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import { buildSelectionParameters, MAX_INCLUDES } from './parameters.ts'
import { toVersionView } from './version-fields.ts'

export interface SelectionValues {
  fields?: string
  include?: string
}

/** Returns the names in a list with commas. */
export const splitNames = (names: string | undefined): string[] => names?.split(',') ?? []

/** Adds a violation for each name that is not known. */
export function checkNames(
  parameter: string,
  names: readonly string[],
  known: readonly string[],
  violations: Violation[],
) {
  for (const name of new Set(names)) {
    if (violations.length >= MAX_VIOLATIONS) return
    if (known.includes(name)) continue
    const message = `"${name}" is not one of ${known.join(', ')}`
    violations.push(createViolation(parameter, message, 'INVALID_VALUE'))
  }
}

export function createReadSelection(resource: Resource, mappings: FieldMappings) {
  const { relations, schemas } = resource
  const { sources } = mappings[resource.name] ?? {}
  const knownFields = Object.keys(toVersionView(resource, mappings).schemas.read.properties)
  const knownRelations = Object.keys(relations)

  /** Returns the fields of which those of the version are made. */
  const toCollection = (shown: readonly string[]) =>
    Object.keys(schemas.read.properties).filter(
      (field) => field === 'id' || shown.some((name) => sources?.[name]?.includes(field)),
    )

  return (values: SelectionValues, violations: Violation[]): Selection => {
    const fields = splitNames(values.fields)
    const names = splitNames(values.include)
    checkNames('fields', fields, knownFields, violations)
    checkNames('include', names, knownRelations, violations)
    if (new Set(names).size > MAX_INCLUDES) {
      const message = `must not have more than ${MAX_INCLUDES} relations`
      violations.push(createViolation('include', message, 'INVALID_VALUE'))
    }
    // In the order of the resource, so that equal requests share a statement and an entity tag.
    const included = Object.entries(relations).filter(([name]) => names.includes(name))
    const selected = knownFields.filter((name) => name === 'id' || fields.includes(name))
    const shown = values.fields === undefined ? undefined : selected
    return {
      fields: shown && sources ? toCollection(shown) : shown,
      shown: sources && shown,
      include: included.map(([name]) => name),
      requires: included.map(([, { to }]) => getCredentialRule(to, 'read')),
    }
  }
}

export const createSelectionQuery = (resource: Resource, mappings: FieldMappings): TUnsafe<Selection> =>
  withDecode(
    buildSelectionParameters(toVersionView(resource, mappings)),
    createReadSelection(resource, mappings),
  )
