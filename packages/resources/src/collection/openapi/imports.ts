/** Builds what the route of a creation has for imports: the query string, the bodies and the response. */
import {
  buildExample,
  type DocumentedResponse,
  pickHeaders,
  writeCsvExample,
} from '@resource-api/http/internal'
import { ImportResult } from '../../schemas/imports.ts'
import { buildBodyExample } from '../request/body-schema.ts'
import { buildImportQuery, ROWS_PER_COST } from '../request/import-query.ts'
import type { Resource } from '../resource.ts'

/** @param members by which an import can find rows */
function describeImport(members: readonly string[]): string {
  const names = members.map((name) => `\`?on_conflict=${name}\``)
  return [
    '**Import:** with `Content-Type: application/x-ndjson` or `text/csv`, each row of the body is a resource; all are written, or none.',
    'The response is 200 with the numbers of rows.',
    'Read-only fields are ignored, so that an export can be sent back; an empty field of CSV is an absent one.',
    ...(names.length > 0
      ? [`With ${names.join(' or ')}, a row whose value exists changes that resource, as PATCH would.`]
      : []),
    '`?dry_run=true` checks all rows and writes nothing.',
    'The fields of an error begin with the row, such as `rows.17.name`.',
    `An import counts as one request per ${ROWS_PER_COST} rows and for each 64 KiB.`,
  ].join(' ')
}

/**
 * The documents have imports as text and in `x-import`: with media types, parameters and a status of their own, generated
 * clients would have unions in the place of the body and the response of a creation.
 * @param schema that of the route for JSON
 */
export function buildImportSchema(
  resource: Resource,
  schema: { description: string; response: Record<number, DocumentedResponse> },
) {
  const { notImported = [] } = resource
  const whole = Object(buildBodyExample(resource, 'create'))
  const example = Object.fromEntries(Object.entries(whole).filter(([name]) => !notImported.includes(name)))
  const querystring = buildImportQuery(resource)
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
    querystring,
    // The access stands last.
    description: schema.description
      .split('\n\n')
      .toSpliced(-1, 0, describeImport(querystring.properties.on_conflict?.enum ?? []))
      .join('\n\n'),
    'x-import': {
      'application/x-ndjson': { example: `${JSON.stringify(example)}\n` },
      'text/csv': { example: writeCsvExample(example) },
    },
    response,
  }
}
