/** Builds what the route of a creation has for imports: the query string, the bodies and the response. */
import { buildExample, type DocumentedResponse, pickHeaders } from '@resource-api/api/documents'
import type { FastifyInstance } from 'fastify'
import { writeCsvExample } from '../csv.ts'
import type { Resource } from '../definition/resource.ts'
import { buildBodyExample } from '../request/body-schema.ts'
import { buildImportQuery } from '../request/import-query.ts'
import { ImportResult } from '../schemas/imports.ts'

/** @param members by which an import can find rows */
const describeImport = (members: readonly string[]): string =>
  `Also accepts CSV and NDJSON${members.map((name) => `, with \`on_conflict=${name}\``).join(' or')}: [imports](#imports).`

/**
 * The documents have imports as text and in `x-import`: with media types, parameters and a status of their own, generated
 * clients would have unions in the place of the body and the response of a creation.
 * @param schema that of the route for JSON
 */
export function buildImportSchema(
  { app, resource }: { app: FastifyInstance; resource: Resource },
  schema: { description: string; response: Record<number, DocumentedResponse> },
) {
  const { notImported = [] } = resource
  const { mappings } = app.resourceWriter
  const { schemas = resource.schemas } = mappings[resource.name] ?? {}
  const whole = Object(buildBodyExample({ schemas }, 'create'))
  const example = Object.fromEntries(Object.entries(whole).filter(([name]) => !notImported.includes(name)))
  const query = buildImportQuery(resource, mappings)
  const response: Record<number, DocumentedResponse> = {
    200: {
      'x-documented': false,
      description: 'Imported',
      headers: pickHeaders('Idempotency-Replayed'),
      content: {
        'application/json': {
          schema: ImportResult,
          examples: { 'ImportReply.whole': { value: buildExample(ImportResult) } },
        },
      },
    },
    ...schema.response,
  }
  return {
    query,
    description: `${schema.description}\n\n${describeImport(query.properties.on_conflict?.enum ?? [])}`,
    'x-import': {
      'application/x-ndjson': { example: `${JSON.stringify(example)}\n` },
      'text/csv': { example: writeCsvExample(example) },
    },
    response,
  }
}
