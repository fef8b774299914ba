/** The parameters of lists and of reads, as OpenAPI tells them and as query strings are first checked. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { ResolvedResource } from '../resolve.ts'

export const DEFAULT_LIMIT = 20

const word = (description: string, examples: string[]) => Type.String({ minLength: 1, description, examples })

const selectionSchema = (resource: ResolvedResource): TProperties => {
  const members = Object.keys(resource.schemas.read.properties)
  const relations = Object.keys(resource.relations)
  return {
    fields: Type.Optional(
      word(`Only these members, comma-separated; \`id\` always. Of: ${members.join(', ')}`, [
        members.slice(0, 3).join(','),
      ]),
    ),
    ...(relations.length > 0
      ? {
          include: Type.Optional(
            word(`Related resources, comma-separated, at most 3. Of: ${relations.join(', ')}`, [
              relations[0] ?? '',
            ]),
          ),
        }
      : {}),
  }
}

/** The parameters of a read of one resource. */
export const selectionQuery = (resource: ResolvedResource): TObject =>
  Type.Object(selectionSchema(resource), { additionalProperties: false })

/** The parameters of a list. */
export function listQuery(resource: ResolvedResource): TObject {
  const sorts = Object.keys(resource.sorts)
  const filters = Object.fromEntries(
    resource.filters.map((name) => {
      const { default: _, ...member } = resource.schemas.read.properties[name] as TSchema
      return [name, Type.Optional({ ...member, description: `Only those with this ${name}` } as TSchema)]
    }),
  )
  const date = (description: string) =>
    Type.Optional(Type.String({ format: 'date', description, examples: ['2026-11-21'] }))
  return Type.Object(
    {
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 100,
          default: DEFAULT_LIMIT,
          description: 'The most resources on a page',
        }),
      ),
      cursor: Type.Optional(
        Type.String({ description: "The previous page's `pagination.cursor`; empty for the first page" }),
      ),
      page: Type.Optional(
        Type.Integer({
          minimum: 1,
          description: 'Chooses pages with a total, no deeper than 10,000 rows; not with `cursor`',
          examples: [1],
        }),
      ),
      sort: Type.Optional(
        word(
          `Comma-separated, at most 5, \`-\` for descending; \`-created_at\` when absent. Of: ${sorts.join(', ')}`,
          [`-${sorts[0]}`],
        ),
      ),
      order: Type.Optional(
        word('`asc` or `desc`, comma-separated, for the fields of `sort` by position', ['desc']),
      ),
      ...filters,
      created_after: date('Created on this day or later, UTC'),
      created_before: date('Created before this day, UTC'),
      ...(resource.search.length > 0
        ? {
            search: Type.Optional(
              Type.String({
                minLength: 1,
                maxLength: 100,
                'x-trim': true,
                description: `Words, at most 8, each of which occurs in one of: ${resource.search.join(', ')}`,
                examples: ['tea'],
              }),
            ),
          }
        : {}),
      ...selectionSchema(resource),
    },
    { additionalProperties: false },
  )
}
