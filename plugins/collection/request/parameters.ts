/** Builds the schemas of query parameters, which validate query strings and document them in OpenAPI. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { ResolvedResource } from '../resolve.ts'

/** Rows of a page without `limit`. */
export const DEFAULT_LIMIT = 20
/** Rows before the last page that `page` can reach. */
export const MAX_OFFSET = 10_000

const buildText = (description: string, examples: string[]) =>
  Type.String({ minLength: 1, description, examples })

const buildSelection = (resource: ResolvedResource): TProperties => {
  const fields = Object.keys(resource.schemas.read.properties)
  const relations = Object.keys(resource.relations)
  return {
    fields: Type.Optional(
      buildText('Narrows the response to these fields and `id`, although its schema requires all fields', [
        fields.slice(0, 3).join(','),
      ]),
    ),
    ...(relations.length > 0
      ? {
          include: Type.Optional(buildText('Related resources to include, at most 3', [relations[0] ?? ''])),
        }
      : {}),
  }
}

/** Builds the parameters of a single read. */
export const buildSelectionParameters = (resource: ResolvedResource): TObject =>
  Type.Object(buildSelection(resource), { additionalProperties: false })

/** Builds the parameters of a list. */
export function buildListParameters(resource: ResolvedResource): TObject {
  const sorts = Object.keys(resource.sorts)
  const filters = Object.fromEntries(
    resource.filters.map((name): [string, TSchema] => {
      const { default: _, ...property }: TSchema = resource.schemas.read.properties[name] ?? Type.Never()
      return [name, Type.Optional({ ...property, description: `Only resources with this ${name}` })]
    }),
  )
  const buildDate = (description: string) =>
    Type.Optional(Type.String({ format: 'date', description, examples: ['2026-11-21'] }))
  return Type.Object(
    {
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 100,
          default: DEFAULT_LIMIT,
          description: 'Maximum number of resources on a page',
        }),
      ),
      cursor: Type.Optional(
        Type.String({
          description: '`pagination.cursor` of the previous page; empty for the first page',
          examples: [''],
        }),
      ),
      page: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MAX_OFFSET + 1,
          description:
            'Page number; selects pagination with a total. Reaches the first 10,000 rows; cannot be combined with `cursor`',
          examples: [1],
        }),
      ),
      sort: Type.Optional(
        buildText('Fields to sort by, at most 5; `-` means descending. Default: `-created_at`', [
          `-${sorts[0]}`,
        ]),
      ),
      order: Type.Optional(
        buildText('Directions, `asc` or `desc`, for the fields of `sort` in the same order', ['desc']),
      ),
      ...filters,
      created_after: buildDate('Only resources created on this day (UTC) or later'),
      created_before: buildDate('Only resources created before this day (UTC)'),
      ...(resource.search.length > 0
        ? {
            search: Type.Optional(
              Type.String({
                minLength: 1,
                maxLength: 100,
                'x-trim': true,
                description: `At most 8 words, all of which must occur, each in any of: ${resource.search.join(', ')}`,
                examples: ['tea'],
              }),
            ),
          }
        : {}),
      ...buildSelection(resource),
    },
    { additionalProperties: false },
  )
}
