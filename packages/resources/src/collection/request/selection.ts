/** Reads which fields and relations a request selects, and the query string of a single read. */

import type { Violation } from '@resource-api/http'
import {
  buildExample,
  createViolation,
  getCredentialRule,
  MAX_VIOLATIONS,
  type ResourceWriter,
  withDecode,
} from '@resource-api/http/internal'
import { exampleId } from '@resource-api/http/schemas'
import type { TUnsafe } from '@sinclair/typebox'
import type { Selection } from '../query.ts'
import type { Resource } from '../resource.ts'
import { buildSelectionParameters, MAX_INCLUDES } from './parameters.ts'

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

/** Returns whether a version shows any of the selected fields: it may make one of its own of several. */
function showsAny(
  { name: type, schemas }: Resource,
  writer: ResourceWriter,
  selected: readonly string[],
): boolean {
  if (!writer.isMapped(type) || selected.every((name) => name === 'id')) return true
  const members = Object.fromEntries(
    Object.entries(schemas.read.properties).flatMap(([name, schema]) =>
      selected.includes(name) ? [[name, buildExample(schema)]] : [],
    ),
  )
  return writer.showsAny({ type, members: { ...members, id: exampleId } })
}

/** @param writer that of the version; without, `fields` is not read */
export function createReadSelection(resource: Resource, writer?: ResourceWriter) {
  const { schemas, relations } = resource
  const knownFields = Object.keys(schemas.read.properties)
  const knownRelations = Object.keys(relations)

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
    if (writer && violations.length === 0 && !showsAny(resource, writer, selected)) {
      const message = `selects no field of version ${writer.version}, which needs others for its own`
      violations.push(createViolation('fields', message, 'INVALID_VALUE'))
    }
    return {
      fields: values.fields === undefined ? undefined : selected,
      include: included.map(([name]) => name),
      requires: included.map(([, { to }]) => getCredentialRule(to, 'read')),
    }
  }
}

export const createSelectionQuery = (resource: Resource, writer: ResourceWriter): TUnsafe<Selection> =>
  withDecode(buildSelectionParameters(resource), createReadSelection(resource, writer))
