/** What aggregates are computed of: each measure and each group, with its SQL, its value in JSON and its schema. */

import { buildExample } from '@resource-api/api/documents'
import { Integer, MAX_INTEGER, OrNull } from '@resource-api/api/schemas'
import { type TSchema, Type } from '@sinclair/typebox'
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import { toTimestamp } from '../response/response-builder.ts'

/** The parts of an entry of the response, apart from the count. */
export const PARTS = {
  group: 'The values that the resources of the group have; empty without `group_by`',
  sum: 'The sums; 0 of nothing',
  avg: 'The averages, rounded to six decimals; null of nothing',
  min: 'The least values; null of nothing',
  max: 'The greatest values; null of nothing',
}

export interface Figure {
  /** In a query, such as `sum:total_amount` or `created_at:day`. */
  name: string
  part: keyof typeof PARTS | 'count'
  /** Empty of the count. */
  field: string
  build(column: PgColumn): SQL
  /** Converts a value of the database that is not null. */
  toJson(value: unknown): unknown
  schema: TSchema
}

type Aggregated = Pick<ResourceDefinition, 'aggregates' | 'schemas'>

export function describeField({ schemas }: Aggregated, field: string) {
  const { default: _, ...withoutDefault }: TSchema = schemas.read.properties[field] ?? Type.Never()
  // Annotated: declaration files cannot name the type of a rest pattern of a TypeBox schema.
  const schema: TSchema = withoutDefault
  const { format, type: types } = schema
  const type = [types].flat().find((each) => each !== 'null')
  const isNumber = type === 'integer' || type === 'number'
  return {
    schema,
    type,
    isNumber,
    isNumeric: isNumber || format === 'decimal',
    isTime: format === 'date' || format === 'date-time',
    toJson(value: unknown): unknown {
      if (format === 'date-time') return toTimestamp(String(value))
      return isNumber ? Number(value) : value
    },
  }
}

/**
 * Floating-point numbers as decimals, by their text: a direct cast keeps 15 digits of them, and a sum of floating-point
 * numbers depends on their order and can overflow.
 */
const toSummand = (column: PgColumn): SQL =>
  /^(?:double|real)/.test(column.getSQLType()) ? sql`${column}::text::numeric` : sql`${column}`

const count: Figure = {
  name: 'count',
  part: 'count',
  field: '',
  build: () => sql`count(*)`,
  toJson: Number,
  schema: Integer(0, MAX_INTEGER, { description: 'The number of resources', examples: [3] }),
}

function listFieldMeasures(resource: Aggregated, field: string): Figure[] {
  const { isNumber, isNumeric, schema, toJson, type } = describeField(resource, field)
  const { description = '' } = schema
  const texts = { description, examples: [buildExample(schema)] }
  const define = (
    part: 'sum' | 'avg' | 'min' | 'max',
    rest: Pick<Figure, 'build' | 'toJson' | 'schema'>,
  ) => ({
    name: `${part}:${field}`,
    ...{ part, field },
    ...rest,
  })
  const extreme = { toJson, schema: OrNull({ ...schema, type }) }
  const extremes = [
    define('min', { build: (column) => sql`min(${column})`, ...extreme }),
    define('max', { build: (column) => sql`max(${column})`, ...extreme }),
  ]
  if (!isNumeric) return extremes
  const range = isNumber && { minimum: -MAX_INTEGER, maximum: MAX_INTEGER }
  return [
    define('sum', {
      build: (column) => sql`coalesce(sum(${toSummand(column)}), 0)`,
      toJson,
      schema: Type.Unsafe({ type, ...range, ...texts }),
    }),
    define('avg', {
      build: (column) => sql`round(avg(${toSummand(column)}), 6)`,
      toJson: Number,
      schema: Type.Unsafe({ type: ['number', 'null'], description, examples: texts.examples.map(Number) }),
    }),
    ...extremes,
  ]
}

export const listMeasures = (resource: Aggregated): Figure[] => [
  count,
  ...(resource.aggregates?.measures ?? []).flatMap((field) => listFieldMeasures(resource, field)),
]

/** Types of which all values have the same order in every database. The others are sorted by code point. */
const ORDERED_TYPE =
  /^(?:big(?:int|serial)|boolean|double|integer|numeric|real|serial|small(?:int|serial)|time|uuid)|collate "C"/i

const buildValue = (column: PgColumn): SQL =>
  ORDERED_TYPE.test(column.getSQLType()) ? sql`${column}` : sql`${column}::text collate "C"`

function buildPeriod(column: PgColumn, unit: string): SQL {
  const hasZone = column.getSQLType().endsWith('with time zone')
  const time = hasZone ? sql`${column} at time zone 'UTC'` : sql`${column}::timestamp`
  return sql`to_char(date_trunc(${sql.raw(`'${unit}'`)}, ${time}), 'YYYY-MM-DD') collate "C"`
}

const day = { format: 'date', description: 'The first day, in UTC', examples: ['2026-11-01'] }

export const listGroups = (resource: Aggregated): Figure[] =>
  (resource.aggregates?.groups ?? []).flatMap((field): Figure[] => {
    const { isTime, schema, toJson } = describeField(resource, field)
    if (!isTime) return [{ name: field, part: 'group', field, build: buildValue, toJson, schema }]
    return ['day', 'week', 'month'].map((unit) => ({
      name: `${field}:${unit}`,
      ...{ part: 'group' as const, field },
      build: (column) => buildPeriod(column, unit),
      toJson: String,
      schema: Type.Unsafe({ type: ['string', 'null'], ...day }),
    }))
  })
