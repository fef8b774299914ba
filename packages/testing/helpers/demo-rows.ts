/** Writes demo rows as `seed` does, reads them, and checks that the API could have created them. */
import type { TSchema } from '@sinclair/typebox'
import { type SeedOptions, seedDatabase } from '../../accounts/src/seed/seed-database.ts'
import type { Database } from '../../database/src/client/index.ts'
import { createAjv } from '../../http/src/validation/formats.ts'
import { normalize } from '../../http/src/validation/normalize.ts'
import type { Client, Json } from './app.ts'

/** The day before which the rows are dated. */
const UNTIL = Date.UTC(2026, 0, 1)
const TWO_YEARS_MS = 731 * 86_400_000

/** Writes the same rows each time. */
export const seedRows = (
  database: Database,
  options: Pick<SeedOptions, 'definitions' | 'users'> & Partial<SeedOptions>,
) =>
  seedDatabase(database, {
    folder: new URL('../../../src/cli/demo-data/', import.meta.url),
    seed: 42,
    until: UNTIL,
    concurrency: database.kind === 'server' ? 3 : 1,
    ...options,
  })

/** Reads a whole collection. */
export async function readAll(client: Client, path: string): Promise<Json[]> {
  const found: Json[] = []
  for (let cursor = ''; ; ) {
    const { status, body } = await client.get(`${path}?limit=100&cursor=${encodeURIComponent(cursor)}`)
    if (status !== 200) throw new Error(`${path}: ${status}`)
    found.push(...body.data)
    if (!body.pagination.has_more) return found
    cursor = body.pagination.cursor
  }
}

const ajv = createAjv()

/** Returns the rows that the API could not have created. */
export const findUnsound = (rows: readonly Json[], schema: TSchema): Json[] =>
  rows.filter((row) => {
    const { value, violations } = normalize(row, schema)
    const createdAt = Date.parse(row.created_at)
    return !(
      ajv.validate(schema, row) &&
      violations.length === 0 &&
      JSON.stringify(value) === JSON.stringify(row) &&
      Number.parseInt(row.id.replaceAll('-', '').slice(0, 12), 16) === createdAt &&
      row.updated_at >= row.created_at &&
      createdAt > UNTIL - TWO_YEARS_MS &&
      Date.parse(row.updated_at) <= UNTIL
    )
  })

export const getShare = (rows: readonly Json[], member: string, value: string) =>
  rows.filter((row) => row[member] === value).length / rows.length

/** Returns the paths whose search, with a word of a row, does not find that row. */
export async function findUnfound(
  client: Client,
  searches: readonly (readonly [path: string, word: string, id: string])[],
): Promise<string[]> {
  const unfound: string[] = []
  for (const [path, word, id] of searches) {
    const { body } = await client.get(`${path}?limit=100&search=${encodeURIComponent(word)}`)
    if (!body.data.some((row: Json) => row.id === id)) unfound.push(`${word} in ${path}`)
  }
  return unfound
}
