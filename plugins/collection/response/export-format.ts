/** Writes the rows of an export: as NDJSON in the form of the version, or as CSV (RFC 4180), which is always flat. */
import type { TSchema } from '@sinclair/typebox'
import { writeCsvRecord } from '../../../lib/csv.ts'
import { compileSerializer } from '../../validation/index.ts'
import { type ExportType, STREAM_TYPES } from '../../versioning/accept.ts'
import type { Entity, Pagination, Representation } from '../../versioning/representation/types.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import type { Resource } from '../resource.ts'

/** Returns the text of resources. */
type Write = (entities: readonly Entity[]) => string

export interface ExportFormat {
  /** The value of the header Content-Type. */
  contentType: string
  /** Returns the text before the first row, and the function that writes the rows. */
  begin(fields: readonly string[] | undefined): { head: string; write: Write }
}

const NO_PAGINATION: Pagination = { cursor: null, has_more: false }

function createNdjson(resource: Resource, { many, schemas }: Representation): ExportFormat {
  const shape = buildResourceShape(resource.published, true)
  const serialize = compileSerializer(schemas.one(shape).properties.data)
  const write: Write = (entities) => {
    let text = ''
    for (const value of many(entities, NO_PAGINATION).data) text += `${serialize(value)}\n`
    return text
  }
  return { contentType: STREAM_TYPES.ndjson, begin: () => ({ head: '', write }) }
}

/** Creates the function that writes a value as the serializer does, without the quotes of a JSON string. */
function createCellWriter(schema: TSchema): (value: unknown) => string {
  const isText = [schema.type].flat().includes('string')
  const serialize = compileSerializer(schema)
  return (value) => {
    if (value === null || value === undefined) return ''
    if (isText && typeof value === 'string') return value
    const text = serialize(value)
    return text.startsWith('"') ? JSON.parse(text) : text
  }
}

function createCsv({ published, names }: Resource): ExportFormat {
  const properties: Record<string, TSchema> = published.schemas.read.properties
  const columns = Object.entries(properties).map(([name, schema]) => ({
    name,
    writeCell: createCellWriter(schema),
  }))
  return {
    contentType: `${STREAM_TYPES.csv}; charset=utf-8`,
    begin(fields) {
      const wanted = fields && new Set(fields.map((name) => names?.toPublic(name) ?? name))
      const selected = columns.filter(({ name }) => wanted?.has(name) !== false)
      return {
        head: writeCsvRecord(selected.map(({ name }) => name)),
        write(entities) {
          let text = ''
          for (const { members } of entities) {
            text += writeCsvRecord(selected.map(({ name, writeCell }) => writeCell(members[name])))
          }
          return text
        },
      }
    },
  }
}

/** Creates the formats of a resource in a version. */
export const createExportFormats = (
  resource: Resource,
  representation: Representation,
): Record<ExportType, ExportFormat> => ({
  ndjson: createNdjson(resource, representation),
  csv: createCsv(resource),
})
