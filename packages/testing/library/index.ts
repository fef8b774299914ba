/**
 * A library: an application beside the shop, with what an ordinary one declares: a rule by relation, an owner, states, a
 * parent, a view, a resource without removal, code that decides who may create, an enum as the only field that changes,
 * fields for some roles, and a report.
 */
import { readFileSync } from 'node:fs'
import type { Config } from '@resource-api/http/config'
import type { AccessMatrix } from '@resource-api/resources/access-matrix'
import { v7 as uuid } from 'uuid'
import { type AppOverrides, buildApp } from '../../../src/app.ts'
import { resources } from '../../../src/resources.ts'
import { createTable } from '../helpers/rows.ts'
import type { AllExamples } from '../src/examples.ts'
import books from './books.ts'
import loans from './loans.ts'
import readers from './readers.ts'
import { reports } from './reports.ts'
import reviews from './reviews.ts'
import shelves from './shelves.ts'
import * as tables from './tables.ts'

export const libraryResources = [
  ...resources.filter(({ collection }) => collection.name.startsWith('user')),
  ...[shelves, books, loans, reviews, readers],
]

/** Builds the application with the library in the place of the shop. */
export async function buildLibrary(config: Config, overrides: AppOverrides = {}) {
  const { database } = overrides
  if (!database) throw new Error('The library has a database for each test')
  for (const table of [tables.shelves, tables.books, tables.loans, tables.reviews])
    await createTable(database, table)
  await database.run(tables.READERS)
  return buildApp(config, { resources: libraryResources, routes: [reports], ...overrides })
}

/** What the library grants. */
export const libraryPromises: AccessMatrix = JSON.parse(
  readFileSync(new URL('access-matrix.json', import.meta.url), 'utf8'),
)

/** What must exist before a review: the reader has returned the book. */
export const libraryExamples: AllExamples = new Map([
  [
    'reviews',
    {
      create: (n) => ({ rating: 1 + (n % 5), book_id: '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f' }),
      before: ({ database, owner, body }) =>
        database.run(`insert into loans (id, user_id, book_id, status) values ($1, $2, $3, 'returned')`, [
          uuid(),
          owner,
          body.book_id,
        ]),
    },
  ],
])
