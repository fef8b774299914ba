/**
 * Writes resources as the version of a scope does, for operations that write their responses themselves: rows of exports,
 * results of batches, and large pages, piece by piece.
 */
import type { TSchema } from '@sinclair/typebox'
import { buildResponseExample } from '../documents/examples.ts'
import type { Entity, PageResult, Shape } from '../results/result.ts'
import { compileSerializer } from '../validation/validation.ts'
import type { FieldMappings, Page, Representation, RowMode } from './representation/types.ts'

export interface ResourceWriter {
  /** The number of the version. */
  version: number
  /** Returns the text of a shape's schema: tags of the resources depend on it. */
  describe(shape: Shape): string
  /** Creates the function that writes a resource as JSON. */
  create(shape: Shape): (entity: Entity) => string
  /** Returns the JSON value of a page. */
  toPage(page: PageResult): Page
  /** Writes a resource for the documents. */
  writeExample(shape: Shape, entity: Entity): string
  /** Returns the members of a resource as the version names them. */
  members(entity: Entity): Entity['members']
  /** The fields of the collections that have others in the version. */
  mappings: FieldMappings
  /**
   * Returns the schema of the row of an import: a body of the resource.
   * @param fields those of the collection
   * @param mode of a row with the fields of the version, whose values are mapped to those of the collection
   */
  buildRow(fields: TSchema, type: string, mode?: RowMode): TSchema
}

declare module 'fastify' {
  interface FastifyInstance {
    /** In the scope of a version. */
    resourceWriter: ResourceWriter
  }
}

export function createResourceWriter({
  many,
  mappings = {},
  members,
  resource,
  schemas,
  version,
}: Representation): ResourceWriter {
  const buildSchema = (shape: Shape): TSchema => schemas.one(shape).properties.data
  return {
    version,
    describe: (shape) => JSON.stringify(schemas.one(shape)),
    create(shape) {
      const serialize = compileSerializer(buildSchema(shape))
      return (entity) => serialize(resource(entity))
    },
    toPage: ({ entities, pagination, meta }) => many(entities, pagination, meta),
    writeExample: (shape, entity) =>
      JSON.stringify(buildResponseExample(resource(entity), buildSchema(shape))),
    members,
    mappings,
    buildRow: (fields, type, mode) =>
      schemas.body((mode && schemas.row?.(fields, type, mode)) ?? fields, type, true),
  }
}
