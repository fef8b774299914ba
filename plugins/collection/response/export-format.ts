/** Writes the rows of an export: as NDJSON in the form of the version, or as CSV (RFC 4180), which is always flat. */
import type { TObject, TSchema } from '@sinclair/typebox'
import { getColumnType } from '../../../drizzle/expressions.ts'
import { writeCsvRecord } from '../../../lib/csv.ts'
import { compileSerializer } from '../../validation/index.ts'
import { type ExportType, STREAM_TYPES } from '../../versioning/accept.ts'
import type { Entity, Representation } from '../../versioning/representation/types.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import type { Resource } from '../resource.ts'

export interface ExportFormat {
  /** The value of the header Content-Type. */
  contentType: string
  /** Returns the text before the first row, and the function that returns the text of a row. */
  begin(fields: readonly string[] | undefined): { head: string; write: (entity: Entity) => string }
}

/** The types of columns whose text never has a character that JSON escapes. */
const PLAIN_TYPES = /^(uuid|date|timestamp[^[]*)$/

/**
 * Returns the schema of a resource for the serializer of exports. By the format `unsafe` of fast-json-stringify, it does not
 * look for characters to escape in values that cannot have them: to serialize a product takes 0.6 of the CPU.
 */
function skipEscaping({ columns, computed, names, published }: Resource): TObject {
  const { read } = published.schemas
  const plain = Object.entries(columns).flatMap(([internal, column]) => {
    const name = names?.toPublic(internal) ?? internal
    const property = read.properties[name]
    const isPlain =
      property && !computed && column.dataType === 'string' && PLAIN_TYPES.test(getColumnType(column))
    return isPlain ? [[name, { ...property, format: 'unsafe' }]] : []
  })
  return { ...read, properties: { ...read.properties, ...Object.fromEntries(plain) } }
}

function createNdjson(resource: Resource, { resource: toValue, schemas }: Representation): ExportFormat {
  const shape = { ...buildResourceShape(resource.published, true), members: skipEscaping(resource) }
  const serialize = compileSerializer(schemas.one(shape).properties.data)
  const write = (entity: Entity) => `${serialize(toValue(entity))}\n`
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
        write: ({ members }) =>
          writeCsvRecord(selected.map(({ name, writeCell }) => writeCell(members[name]))),
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
