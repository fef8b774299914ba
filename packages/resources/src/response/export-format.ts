/** Writes the rows of an export: as NDJSON in the form of the version, or as CSV (RFC 4180) with its fields, always flat. */
import type { Actor } from '@resource-api/api/actor'
import { compileSerializer } from '@resource-api/api/validation'
import { type ResourceWriter, STREAM_TYPES } from '@resource-api/api/versions'
import type { TSchema } from '@sinclair/typebox'
import { writeCsvRecord } from '../csv.ts'
import type { Selection } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import { showOnly } from './response-builder.ts'

interface ExportFormat {
  /** The value of the header Content-Type. */
  contentType: string
  /** Returns the text before the first row, and the function that returns the text of a row. */
  begin(
    actor: Actor,
    selection: Pick<Selection, 'fields' | 'shown'>,
  ): { head: string; write: (row: Row) => string }
}

export function createNdjson(resource: Resource, resourceWriter: ResourceWriter): ExportFormat {
  const write = resourceWriter.create(buildResourceShape(resource, true))
  return {
    contentType: STREAM_TYPES.ndjson,
    begin: (actor, { fields, shown }) => ({
      head: '',
      write: (row) => `${write(showOnly(resource.toEntity(row, actor, fields), shown))}\n`,
    }),
  }
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

export function createCsv(resource: Resource, { mappings, members }: ResourceWriter): ExportFormat {
  const { schemas, sources } = mappings[resource.name] ?? { schemas: resource.schemas }
  const properties: Record<string, TSchema> = schemas.read.properties
  const columns = Object.entries(properties).map(([name, schema]) => ({
    name,
    writeCell: createCellWriter(schema),
  }))
  return {
    contentType: `${STREAM_TYPES.csv}; charset=utf-8`,
    begin(actor, { fields, shown = fields }) {
      const { hidden } = resource.forRole(actor.role)
      const isHidden = (name: string) => (sources?.[name] ?? [name]).some((each) => hidden.includes(each))
      const selected = columns.filter(({ name }) => !isHidden(name) && shown?.includes(name) !== false)
      return {
        head: writeCsvRecord(selected.map(({ name }) => name)),
        write(row) {
          const written = members(resource.toEntity(row, actor, fields))
          return writeCsvRecord(selected.map(({ name, writeCell }) => writeCell(written[name])))
        },
      }
    },
  }
}
